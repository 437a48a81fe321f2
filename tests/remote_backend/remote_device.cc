#include "tests/remote_backend/remote_device.h"

#include <utility>

#include "base/limits.h"
#include "tests/remote_backend/remote_stream.h"

namespace laneway::testing {

RemoteDevice::RemoteDevice() : capabilities_(host_.capabilities()) {
  capabilities_.name = "remote host";
  capabilities_.alignment = limits::kCudaAlignment;
  capabilities_.pool_is_addressable = false;
}

Result<std::unique_ptr<memory::Stream>> RemoteDevice::create_stream() {
  auto host = host_.create_stream();
  if (!host) return host.error();
  return std::unique_ptr<memory::Stream>(
      std::make_unique<RemoteStream>(std::move(host).value(), loss_));
}

Result<std::unique_ptr<memory::Event>> RemoteDevice::create_event() {
  auto host = host_.create_event();
  if (!host) return host.error();
  return std::unique_ptr<memory::Event>(
      std::make_unique<RemoteEvent>(std::move(host).value(), loss_));
}

}  // namespace laneway::testing
