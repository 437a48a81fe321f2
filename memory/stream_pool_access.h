// StreamPoolAccess: access to a pool that the CPU cannot address, over a stream of its device.
// Bytes pass through two chunks of pinned memory in turn, so that the CPU fills or empties one
// while the device copies the other; the caller's memory may be any. From and to memory that pin()
// took the device copies by itself, several times as fast. Thread-safe; calls run one after the
// other, beside copies that were started. The device must outlive the object.
#pragma once

#include <array>
#include <map>
#include <memory>

#include "base/mutex.h"
#include "memory/device/device.h"
#include "memory/pool_access.h"

namespace laneway::memory {

class StreamPoolAccess final : public PoolAccess {
 public:
  // Allocates two chunks of limits::kCopyChunk from the device's host memory. Returns the errors of
  // that allocation.
  static Result<std::unique_ptr<StreamPoolAccess>> create(Device& device);

  // A range that leaves the pool is refused at the chunk that leaves it; the chunks before it may
  // have been written.
  Status write(void* to_pool, const void* from, Bytes bytes) override LW_EXCLUDES(mutex_);
  Status read(void* to, const void* from_pool, Bytes bytes) override LW_EXCLUDES(mutex_);
  Status copy_within(void* to_pool, const void* from_pool, Bytes bytes) override
      LW_EXCLUDES(mutex_);
  Status fill(void* to_pool, std::byte value, Bytes bytes) override LW_EXCLUDES(mutex_);

  Bytes piece() const override;
  bool wants_pinned() const override { return true; }
  Result<std::unique_ptr<MemoryBlock>> pin(std::byte* memory, Bytes bytes) override
      LW_EXCLUDES(pins_mutex_);
  Result<std::shared_ptr<Event>> start_write(void* to_pool, const void* from, Bytes bytes) override
      LW_EXCLUDES(mutex_, started_mutex_);

 private:
  class PinnedBlock;
  // The beginning of a range that is pinned, or is not, as a whole.
  struct Run {
    Bytes bytes;
    bool pinned = false;
  };
  struct Chunk {
    std::unique_ptr<MemoryBlock> memory;
    std::unique_ptr<Event> copied;  // recorded behind the last copy that uses the memory
  };

  explicit StreamPoolAccess(Device& device) : device_(device) {}

  Run run_at(const void* address, Bytes bytes) const LW_EXCLUDES(pins_mutex_);
  bool is_pinned(const void* address, Bytes bytes) const;
  Status stage_write(std::byte* to_pool, const std::byte* from, Bytes bytes) LW_REQUIRES(mutex_);
  Status stage_read(std::byte* to, const std::byte* from_pool, Bytes bytes) LW_REQUIRES(mutex_);
  Status enqueue_write(std::byte* to_pool, const std::byte* from, Bytes bytes) LW_REQUIRES(mutex_);
  Status enqueue_read(std::byte* to, const std::byte* from_pool, Bytes bytes) LW_REQUIRES(mutex_);
  Status start_read(size_t index, const std::byte* from_pool, Bytes bytes) LW_REQUIRES(mutex_);
  // Waits until no copy is under way, also after an error.
  Status finish(Status status) LW_REQUIRES(mutex_);

  Device& device_;
  mutable Mutex pins_mutex_;
  std::map<const std::byte*, Bytes> pins_ LW_GUARDED_BY(pins_mutex_);  // begin -> size
  Mutex started_mutex_;
  // Of copies that were started: others do not wait for them.
  std::unique_ptr<Stream> started_ LW_GUARDED_BY(started_mutex_);
  Mutex mutex_;
  std::array<Chunk, 2> chunks_ LW_GUARDED_BY(mutex_);
  std::unique_ptr<Stream> stream_ LW_GUARDED_BY(mutex_);  // last: its end waits for the chunks
};

}  // namespace laneway::memory
