// open_device: the device that a name means, as users write it (`--device`, `embedded(device=…)`).
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "memory/device/device.h"

namespace laneway::memory {

// "host", or "cuda:N". Errors: invalid_argument for any other text, unsupported for a device that
// this build does not have.
Result<std::unique_ptr<Device>> open_device(std::string_view name);

}  // namespace laneway::memory
