#include "adaptor/device/staging.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace laneway::adaptor {
namespace {

constexpr int64_t kStagingAlignment = 64;

Bytes block_size(Bytes wanted) {
  return Bytes(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted.count()))));
}

}  // namespace

std::byte* Staging::take(Batch& batch, Bytes bytes) {
  const Bytes room = bytes.aligned_up(kStagingAlignment);
  if (!batch.blocks_.empty() && batch.used_ + room <= batch.blocks_.back()->size()) {
    std::byte* const taken = batch.blocks_.back()->data() + batch.used_.count();
    batch.used_ += room;
    batch.asked_ += room;
    return taken;
  }
  const MutexLock lock(mutex_);
  const Bytes rest = largest_batch_ - batch.asked_;
  std::unique_ptr<memory::MemoryBlock> block = take_block(room, std::max(room, rest));
  if (block == nullptr) return nullptr;
  batch.blocks_.push_back(std::move(block));
  batch.used_ = room;
  batch.asked_ += room;
  return batch.blocks_.back()->data();
}

// One of those that are there, else a new one: as large as wanted where the limit allows it, as
// large as it must be where not.
std::unique_ptr<memory::MemoryBlock> Staging::take_block(Bytes least, Bytes wanted) {
  for (auto spare = spare_.begin(); spare != spare_.end(); ++spare) {
    if ((*spare)->size() < wanted) continue;
    std::unique_ptr<memory::MemoryBlock> found = std::move(*spare);
    spare_.erase(spare);
    return found;
  }
  for (const Bytes size : {block_size(wanted), block_size(least)}) {
    if (std::unique_ptr<memory::MemoryBlock> made = make_block(size)) return made;
  }
  return nullptr;
}

// Blocks that nobody has now were too small for somebody: they make room first.
std::unique_ptr<memory::MemoryBlock> Staging::make_block(Bytes size) {
  while (held_ + size > limits::kMaxLaneStaging && !spare_.empty()) {
    held_ -= spare_.back()->size();
    spare_.pop_back();
  }
  if (held_ + size > limits::kMaxLaneStaging) return nullptr;
  Result<std::unique_ptr<memory::MemoryBlock>> made = device_.allocate_host(size);
  if (!made) return nullptr;
  held_ += made.value()->size();
  return std::move(made).value();
}

void Staging::give_back(Batch& batch) {
  const MutexLock lock(mutex_);
  largest_batch_ = std::max(largest_batch_, batch.asked_);
  for (std::unique_ptr<memory::MemoryBlock>& block : batch.blocks_) {
    if (block->size() * 2 < largest_batch_) {
      held_ -= block->size();  // would never serve a whole iteration again
      block.reset();
    } else {
      spare_.push_back(std::move(block));
    }
  }
  batch = {};
}

Bytes Staging::held() const {
  const MutexLock lock(mutex_);
  return held_;
}

}  // namespace laneway::adaptor
