// The CUDA plugin of this build, loaded into the process: torch's CUDA kernels are known from then
// on, with or without a device.
#pragma once

#include "adaptor/device/device_plugin.h"

namespace laneway::testing {

const adaptor::DevicePlugin& loaded_plugin();

}  // namespace laneway::testing
