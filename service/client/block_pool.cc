#include "service/client/block_pool.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace laneway::service {
namespace {

// State grows by little (a random state is asked for too): that should fit what is kept.
constexpr uint64_t kStateUnit = 64u << 10;

uint64_t rounded_up(uint64_t bytes) { return (bytes / kStateUnit + 1) * kStateUnit; }

}  // namespace

Result<BlockLease> BlockPool::take() {
  uint32_t more = 0;
  {
    MutexLock lock(mutex_);
    if (!free_.empty()) {
      Block block = std::move(free_.back());
      free_.pop_back();
      return lease(std::move(block));
    }
    // 1, 3, 12 and 48 blocks: one who waits for each iteration takes no more than it needs.
    more = made_ == 0 ? 1 : std::min(made_ * 3, limits::kMaxInFlight - made_);
    made_ += more;
  }
  if (more == 0) {
    return Error{ErrorCode::busy, std::to_string(limits::kMaxInFlight) +
                                      " iterations are in flight, which is the limit; wait for "
                                      "one of them"};
  }
  auto segment = link_->make_segment(stride_ * more);
  MutexLock lock(mutex_);
  if (!segment) {
    made_ -= more;
    return segment.error();
  }
  for (uint32_t i = more; i > 1; --i) {
    free_.push_back({.segment = segment.value(), .offset = stride_ * (i - 1)});
  }
  return lease({.segment = std::move(segment).value(), .offset = 0});
}

BlockLease BlockPool::lease(Block block) {
  auto give_back = [pool = shared_from_this()](const Block* leased) {
    const std::unique_ptr<const Block> owned(leased);
    pool->give_back(*leased);
  };
  return {std::make_unique<const Block>(std::move(block)).release(), std::move(give_back)};
}

void BlockPool::give_back(Block block) {
  MutexLock lock(mutex_);
  free_.push_back(std::move(block));
}

Result<BlockLease> StatePool::take(uint64_t bytes) {
  std::shared_ptr<Segment> segment;
  {
    MutexLock lock(mutex_);
    segment = std::move(kept_);
    kept_.reset();
  }
  if (segment == nullptr || segment->bytes() < bytes) {
    segment.reset();
    auto made = link_->make_segment(rounded_up(bytes));
    if (!made) return made.error();
    segment = std::move(made).value();
  }
  auto give_back = [pool = shared_from_this()](const Block* leased) {
    const std::unique_ptr<const Block> owned(leased);
    pool->give_back(leased->segment);
  };
  Block block{.segment = std::move(segment), .offset = 0};
  return BlockLease(std::make_unique<const Block>(std::move(block)).release(),
                    std::move(give_back));
}

void StatePool::give_back(std::shared_ptr<Segment> segment) {
  MutexLock lock(mutex_);
  if (kept_ == nullptr || kept_->bytes() < segment->bytes()) kept_.swap(segment);
}

}  // namespace laneway::service
