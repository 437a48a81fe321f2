// RemoteDevice: a HostDevice that is taken for one whose memory the CPU cannot address, and that
// can be lost. Thread-safe.
#pragma once

#include <memory>

#include "memory/device/host_device.h"
#include "tests/remote_backend/remote_loss.h"

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
  Result<std::unique_ptr<memory::MemoryBlock>> pin(std::byte* memory, Bytes size) override {
    return host_.pin(memory, size);
  }
  Result<std::unique_ptr<memory::Stream>> create_stream() override;
  Result<std::unique_ptr<memory::Event>> create_event() override;
  const std::shared_ptr<RemoteLoss>& loss() const { return loss_; }
  // Whether it is memory of a pool: what kernels of a real device could reach.
  bool holds(const void* address) const {
    return host_.require_pool("holds", address, Bytes(1)).ok();
  }

 private:
  const std::shared_ptr<RemoteLoss> loss_ = std::make_shared<RemoteLoss>();
  memory::HostDevice host_;
  memory::Capabilities capabilities_;
};

}  // namespace laneway::testing
