// HostDevice: the CPU as a complete device: pool memory is a sealed memfd mapping, each stream a
// thread with an ordered queue, copies to and from the pool go over a copy engine with a settable
// bandwidth. Thread-safe.
#pragma once

#include <memory>

#include "memory/device/copy_engine.h"
#include "memory/device/device.h"
#include "memory/device/host_memory.h"

namespace laneway::memory {

class HostDevice final : public Device {
 public:
  HostDevice();

  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<MemoryBlock>> allocate_pool(Bytes size) override;
  Result<std::unique_ptr<MemoryBlock>> allocate_host(Bytes size) override;
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

  // Bytes per second in each direction; 0: unlimited.
  void set_copy_bandwidth(int64_t bytes_per_s) { engine_.set_bandwidth(bytes_per_s); }

 private:
  Capabilities capabilities_;
  HostMemory memory_;
  CopyEngine engine_;
};

}  // namespace laneway::memory
