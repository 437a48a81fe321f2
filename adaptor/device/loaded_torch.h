// Which torch this code was compiled with and which one the process has loaded. Includes nothing of
// torch, so that the worker can ask.
#pragma once

#include "base/torch_version.h"

namespace laneway::adaptor {

// The loaded version is what the library says of itself, so it is true whatever lies beside it.
TorchVersions loaded_torch();

}  // namespace laneway::adaptor
