// The remote backend as a plugin.
#include <torch/headeronly/version.h>

#include <string>

#include "adaptor/device/device_plugin.h"
#include "base/version.h"
#include "tests/remote_backend/remote_backend.h"

namespace laneway::testing {
namespace {

Result<std::unique_ptr<adaptor::Backend>> open_remote(uint32_t index,
                                                      const adaptor::BackendOptions& options) {
  if (index != 0 || options.lane_sms != 0) {
    return Error{ErrorCode::invalid_argument,
                 "device cuda:" + std::to_string(index) + " with lanes of " +
                     std::to_string(options.lane_sms) +
                     " multiprocessors: there is cuda:0 alone, without partitions"};
  }
  return open_remote_backend();
}

}  // namespace
}  // namespace laneway::testing

extern "C" __attribute__((visibility("default"))) const laneway::adaptor::DevicePlugin*
laneway_device_plugin() {
  static const laneway::adaptor::DevicePlugin plugin = {
      .version = laneway::adaptor::kDevicePluginVersion,
      .laneway_version = laneway::version(),
      .torch_version = TORCH_VERSION,
      .open = &laneway::testing::open_remote,
  };
  return &plugin;
}
