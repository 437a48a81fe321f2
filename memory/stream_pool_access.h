// StreamPoolAccess: a pool that the CPU cannot address, reached over a stream of its device. Bytes
// pass through two chunks of pinned memory in turn, so that the CPU fills or empties one while the
// device copies the other; the caller's memory may be any. Thread-safe: calls come one after the
// other. The device outlives it.
#pragma once

#include <array>
#include <memory>

#include "base/mutex.h"
#include "memory/device/device.h"
#include "memory/pool_access.h"

namespace laneway::memory {

class StreamPoolAccess final : public PoolAccess {
 public:
  // Takes two chunks of limits::kCopyChunk from the device's host memory. Errors as there.
  static Result<std::unique_ptr<StreamPoolAccess>> create(Device& device);

  // A range that leaves the pool is refused where it does: what lies before may be written.
  Status write(void* to_pool, const void* from, Bytes bytes) override LW_EXCLUDES(mutex_);
  Status read(void* to, const void* from_pool, Bytes bytes) override LW_EXCLUDES(mutex_);
  Status fill(void* to_pool, std::byte value, Bytes bytes) override LW_EXCLUDES(mutex_);

 private:
  struct Chunk {
    std::unique_ptr<MemoryBlock> memory;
    std::unique_ptr<Event> copied;  // the device is done with the memory
  };

  StreamPoolAccess() = default;

  Status enqueue_write(std::byte* to_pool, const std::byte* from, Bytes bytes) LW_REQUIRES(mutex_);
  Status enqueue_read(std::byte* to, const std::byte* from_pool, Bytes bytes) LW_REQUIRES(mutex_);
  Status start_read(size_t index, const std::byte* from_pool, Bytes bytes) LW_REQUIRES(mutex_);
  // Nothing is under way when a call returns, whatever became of it.
  Status finish(Status status) LW_REQUIRES(mutex_);

  Mutex mutex_;
  std::array<Chunk, 2> chunks_ LW_GUARDED_BY(mutex_);
  std::unique_ptr<Stream> stream_ LW_GUARDED_BY(mutex_);  // last: its end waits for the chunks
};

}  // namespace laneway::memory
