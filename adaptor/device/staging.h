// Staging: a lane's pinned memory, through which inputs and outputs pass between the client's
// memory and the device. An iteration takes its room from blocks of its own (a batch), which go
// back together when its copies are done. Each iteration in flight has a batch, so room is never
// reused too early and no search is needed. Blocks grow to the largest batch seen and are kept, up
// to limits::kMaxLaneStaging.
//
// Thread-safe; a batch belongs to one thread at a time. Must outlive its batches, and must be
// destroyed before its device.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "adaptor/device/limits.h"
#include "base/bytes.h"
#include "base/mutex.h"
#include "memory/device/device.h"

namespace laneway::adaptor {

class Staging {
 public:
  // The blocks that one iteration has taken.
  class Batch {
   public:
    bool empty() const { return blocks_.empty(); }

   private:
    friend class Staging;
    std::vector<std::unique_ptr<memory::MemoryBlock>> blocks_;
    Bytes used_;   // of the last one
    Bytes asked_;  // together
  };

  // `device` must outlive the object.
  explicit Staging(memory::Device& device) : device_(device) {}

  // Returns room for `bytes`, aligned to a cache line; null when the limit is reached or the
  // machine has no more. Requires: `bytes` is positive.
  std::byte* take(Batch& batch, Bytes bytes) LW_EXCLUDES(mutex_);
  // Gives the batch's blocks back; the batch is empty afterwards. Requires: no copy uses them any
  // more.
  void give_back(Batch& batch) LW_EXCLUDES(mutex_);

  // The bytes of all blocks, in use or not.
  Bytes held() const LW_EXCLUDES(mutex_);

 private:
  std::unique_ptr<memory::MemoryBlock> take_block(Bytes least, Bytes wanted) LW_REQUIRES(mutex_);
  std::unique_ptr<memory::MemoryBlock> make_block(Bytes size) LW_REQUIRES(mutex_);

  memory::Device& device_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<memory::MemoryBlock>> spare_ LW_GUARDED_BY(mutex_);
  Bytes held_ LW_GUARDED_BY(mutex_);
  Bytes largest_batch_ LW_GUARDED_BY(mutex_) = limits::kMinStagingBlock;
};

}  // namespace laneway::adaptor
