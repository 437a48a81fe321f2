// How much of a device's memory a pool takes when nobody says: half of what is free on the host,
// where the user's programs live too; nearly all of it on a device that is there for nothing else.
#pragma once

#include "adaptor/device/backend.h"
#include "base/bytes.h"

namespace laneway::service {

// A multiple of the device's alignment.
Bytes default_pool(adaptor::Backend& backend);

}  // namespace laneway::service
