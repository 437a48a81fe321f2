#include "tests/remote_backend/remote_device.h"

#include "base/limits.h"

namespace laneway::testing {

RemoteDevice::RemoteDevice() : capabilities_(host_.capabilities()) {
  capabilities_.name = "remote host";
  capabilities_.alignment = limits::kCudaAlignment;
  capabilities_.pool_is_addressable = false;
}

}  // namespace laneway::testing
