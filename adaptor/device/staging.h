// Staging: a lane's pinned memory, through which inputs and outputs pass between the client's
// memory and the device. An iteration takes what it needs from blocks of its own (a batch), which
// go back together when its copies are done: with as many batches as there are iterations under
// way, space is never reused too early and nothing is searched. Blocks grow to what an iteration
// was seen to need and are kept, up to limits::kMaxLaneStaging.
//
// Thread-safe; a batch belongs to one thread at a time. Outlives its batches, and goes before its
// device.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "memory/device/device.h"

namespace laneway::adaptor {

class Staging {
 public:
  // What one iteration has taken.
  class Batch {
   public:
    bool empty() const { return blocks_.empty(); }

   private:
    friend class Staging;
    std::vector<std::unique_ptr<memory::MemoryBlock>> blocks_;
    Bytes used_;   // of the last one
    Bytes asked_;  // together
  };

  // `device` outlives it.
  explicit Staging(memory::Device& device) : device_(device) {}

  // Room for `bytes` (positive), aligned to a cache line; null when the limit is reached or the
  // machine gives no more.
  std::byte* take(Batch& batch, Bytes bytes) LW_EXCLUDES(mutex_);
  // No copy uses it any more. The batch is empty afterwards.
  void give_back(Batch& batch) LW_EXCLUDES(mutex_);

  // All blocks, in use or not.
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
