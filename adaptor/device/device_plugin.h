// DevicePlugin: the table of a shared object with a device. The object exports one function,
// kDevicePluginEntry, that returns the table. Plugins are built together with the rest: their
// versions and torch's version must be the loader's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "adaptor/device/backend.h"
#include "base/result.h"

namespace laneway::adaptor {

inline constexpr uint32_t kDevicePluginVersion = 1;
inline constexpr const char* kDevicePluginEntry = "laneway_device_plugin";

struct DevicePlugin {
  uint32_t version = kDevicePluginVersion;
  const char* laneway_version = nullptr;
  const char* torch_version = nullptr;
  // `index` is the N of "KIND:N".
  Result<std::unique_ptr<Backend>> (*open)(uint32_t index, const BackendOptions& options) = nullptr;
};

// The table of the plugin with devices "KIND:N" (DeviceName): for "cuda" $LANEWAY_CUDA_PLUGIN, else
// liblaneway_cuda.so beside the library or program that this code is in, else in its build folder.
// A plugin is loaded once and never unloaded. unsupported, with the path and the reason, when there
// is none or it is of another build.
Result<const DevicePlugin*> load_device_plugin(const std::string& kind);

}  // namespace laneway::adaptor
