// HostMemory: the blocks of a device whose pool is the CPU's own memory, and the check that an
// address range lies inside one of them. Pool blocks are sealed memfd mappings that
// children made by fork() do not get, host blocks anonymous ones. Shared by HostDevice and
// SyntheticDevice. Thread-safe; must outlive its blocks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "base/mutex.h"
#include "base/result.h"
#include "memory/device/device.h"

namespace laneway::memory {

class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();

  Result<std::unique_ptr<MemoryBlock>> allocate_pool(Bytes size);
  Result<std::unique_ptr<MemoryBlock>> allocate_host(Bytes size);

  // Error invalid_argument, naming the call and the range, unless [address, address + bytes) lies
  // in one pool block.
  Status require_pool(const char* call, const void* address, Bytes bytes) const;

 private:
  class PoolBlock;
  class HostBlock;

  void forget(uintptr_t base);

  mutable Mutex mutex_;
  std::map<uintptr_t, int64_t> pool_blocks_ LW_GUARDED_BY(mutex_);  // base -> size
};

}  // namespace laneway::memory
