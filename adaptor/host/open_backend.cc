#include <string>
#include <utility>

#include "adaptor/device/backend.h"
#include "adaptor/device/device_plugin.h"
#include "adaptor/host/host_backend.h"
#include "adaptor/scope/numeric_context.h"
#include "adaptor/scope/vector_math.h"
#include "base/device_name.h"

namespace laneway::adaptor {

Result<std::unique_ptr<Backend>> open_backend(std::string_view name,
                                              const BackendOptions& options) {
  wake_torch();
  prepare_vector_math();
  const Result<DeviceName> device = parse_device_name(name);
  if (!device) {
    return Error{device.error().code,
                 "unknown device '" + std::string(name) + "': " + device.error().message};
  }
  if (device.value().is_host()) {
    if (options.lane_sms != 0) {
      return Error{ErrorCode::invalid_argument,
                   "lanes of " + std::to_string(options.lane_sms) +
                       " multiprocessors: the device 'host' has none; leave the option out"};
    }
    auto host = std::make_unique<HostBackend>();
    host->pool_access().set_bandwidth(options.copy_bandwidth_per_s);
    return std::unique_ptr<Backend>(std::move(host));
  }
  const auto named = [&name](const Error& error) {
    return Error{error.code,
                 "device '" + std::string(name) + "' cannot be opened: " + error.message};
  };
  const Result<const DevicePlugin*> plugin = load_device_plugin(device.value().kind);
  if (!plugin) return named(plugin.error());
  auto opened = plugin.value()->open(device.value().index, options);
  if (!opened) return named(opened.error());
  return opened;
}

}  // namespace laneway::adaptor
