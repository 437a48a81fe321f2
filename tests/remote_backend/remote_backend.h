// The CPU as a Backend that worker and runner take for another device: see README.md.
#pragma once

#include <memory>

#include "adaptor/device/backend.h"
#include "base/result.h"

namespace laneway::testing {

Result<std::unique_ptr<adaptor::Backend>> open_remote_backend();

}  // namespace laneway::testing
