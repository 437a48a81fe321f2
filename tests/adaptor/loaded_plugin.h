// The CUDA plugin of this build, loaded into the process: torch's CUDA kernels are known from then
// on, with or without a device.
#pragma once

#include <cstdlib>

#include "adaptor/device_plugin.h"

namespace laneway::adaptor {

inline const DevicePlugin& loaded_plugin() {
  static const Result<const DevicePlugin*> plugin = [] {
    ::setenv("LANEWAY_CUDA_PLUGIN", LANEWAY_CUDA_PLUGIN_FILE, 1);
    return load_device_plugin();
  }();
  return *plugin.value();
}

}  // namespace laneway::adaptor
