// HostMemory: the blocks of a device whose pool is the CPU's own memory, and the check that an
// address range lies inside one of them. Pool blocks are sealed memfd mappings that
// children made by fork() do not get, host blocks anonymous ones. Shared by HostDevice and
// SyntheticDevice. Thread-safe; must outlive its blocks.
#pragma once

#include <memory>

#include "base/result.h"
#include "memory/device/block_ranges.h"
#include "memory/device/device.h"
#include "memory/os/shared_memory.h"

namespace laneway::memory {

class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  Result<std::unique_ptr<MemoryBlock>> allocate_pool(Bytes size);
  // Maps a pool block of another process. Takes ownership of the descriptor. Errors as
  // SharedMemory::attach.
  Result<std::unique_ptr<MemoryBlock>> attach_pool(int descriptor, Bytes size);
  Result<std::unique_ptr<MemoryBlock>> allocate_host(Bytes size);
  // All memory is as fast.
  static Result<std::unique_ptr<MemoryBlock>> pin(std::byte* memory, Bytes size);

  // Error invalid_argument, naming the call and the range, unless [address, address + bytes) lies
  // in one pool block.
  Status require_pool(const char* call, const void* address, Bytes bytes) const {
    return pool_blocks_.require(call, address, bytes);
  }

 private:
  class PoolBlock;
  class HostBlock;
  class CallersBlock;

  std::unique_ptr<MemoryBlock> pool_block(SharedMemory memory);

  BlockRanges pool_blocks_;
};

}  // namespace laneway::memory
