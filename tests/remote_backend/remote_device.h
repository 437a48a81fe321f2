// RemoteDevice: a HostDevice that is taken for one whose memory the CPU cannot address.
// Thread-safe.
#pragma once

#include <memory>

#include "memory/device/host_device.h"

namespace laneway::testing {

class RemoteDevice final : public memory::Device {
 public:
  RemoteDevice();

  const memory::Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<memory::MemoryBlock>> allocate_pool(Bytes size) override {
    return host_.allocate_pool(size);
  }
  Result<std::unique_ptr<memory::MemoryBlock>> attach_pool(int descriptor, Bytes size) {
    return host_.attach_pool(descriptor, size);
  }
  Result<std::unique_ptr<memory::MemoryBlock>> allocate_host(Bytes size) override {
    return host_.allocate_host(size);
  }
  Result<std::unique_ptr<memory::Stream>> create_stream() override { return host_.create_stream(); }
  Result<std::unique_ptr<memory::Event>> create_event() override { return host_.create_event(); }

 private:
  memory::HostDevice host_;
  memory::Capabilities capabilities_;
};

}  // namespace laneway::testing
