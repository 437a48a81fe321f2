// HostDevice: the CPU as a complete device: pool memory is a sealed memfd mapping, each stream a
// thread with an ordered queue, copies to and from the pool go over a link with a settable
// bandwidth. Thread-safe.
#pragma once

#include <memory>

#include "memory/device/copy_engine.h"
#include "memory/device/device.h"
#include "memory/device/host_memory.h"

namespace laneway::memory {

class HostDevice final : public Device {
 public:
  HostDevice() : HostDevice(std::make_shared<CopyEngine>()) {}
  explicit HostDevice(std::shared_ptr<CopyEngine> link);

  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<MemoryBlock>> allocate_pool(Bytes size) override;
  Result<std::unique_ptr<MemoryBlock>> allocate_host(Bytes size) override;
  Result<std::unique_ptr<MemoryBlock>> pin(std::byte* memory, Bytes size) override;
  // Maps a pool that another process made. Takes ownership of the descriptor. Errors as
  // SharedMemory::attach.
  Result<std::unique_ptr<MemoryBlock>> attach_pool(int descriptor, Bytes size) {
    return memory_.attach_pool(descriptor, size);
  }
  Result<std::unique_ptr<Stream>> create_stream() override;
  Result<std::unique_ptr<Event>> create_event() override;

  // See HostMemory::require_pool.
  Status require_pool(const char* call, const void* address, Bytes bytes) const {
    return memory_.require_pool(call, address, bytes);
  }

  // Over which all copies to and from its pools go.
  const std::shared_ptr<CopyEngine>& link() const { return link_; }

 private:
  Capabilities capabilities_;
  HostMemory memory_;
  const std::shared_ptr<CopyEngine> link_;
};

}  // namespace laneway::memory
