#include <charconv>
#include <string>
#include <utility>

#include "adaptor/device/backend.h"
#include "adaptor/device/device_plugin.h"
#include "adaptor/host/host_backend.h"
#include "adaptor/scope/numeric_context.h"
#include "adaptor/scope/vector_math.h"

namespace laneway::adaptor {

Result<std::unique_ptr<Backend>> open_backend(std::string_view name,
                                              const BackendOptions& options) {
  wake_torch();
  prepare_vector_math();
  if (name == "host") {
    if (options.lane_sms != 0) {
      return Error{ErrorCode::invalid_argument,
                   "lanes of " + std::to_string(options.lane_sms) +
                       " multiprocessors: the device 'host' has none; leave the option out"};
    }
    auto host = std::make_unique<HostBackend>();
    host->pool_access().set_bandwidth(options.copy_bandwidth_per_s);
    return std::unique_ptr<Backend>(std::move(host));
  }
  constexpr std::string_view kCuda = "cuda:";
  uint32_t index = 0;
  const char* const end = name.data() + name.size();
  const bool cuda = name.starts_with(kCuda);
  const auto parsed = std::from_chars(name.data() + (cuda ? kCuda.size() : 0), end, index);
  if (!cuda || parsed.ec != std::errc() || parsed.ptr != end) {
    return Error{ErrorCode::invalid_argument,
                 "unknown device '" + std::string(name) + "': use 'host' or 'cuda:N'"};
  }
  const auto named = [&name](const Error& error) {
    return Error{error.code,
                 "device '" + std::string(name) + "' cannot be opened: " + error.message};
  };
  const Result<const DevicePlugin*> plugin = load_device_plugin();
  if (!plugin) return named(plugin.error());
  auto opened = plugin.value()->open(index, options);
  if (!opened) return named(opened.error());
  return opened;
}

}  // namespace laneway::adaptor
