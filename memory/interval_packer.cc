#include "memory/interval_packer.h"

#include <algorithm>
#include <limits>

namespace laneway::memory {
namespace {

constexpr int32_t kNeverBegins = std::numeric_limits<int32_t>::max();

// The lowest gap that fits, or the tightest, among those below what is alive.
class GapSearch {
 public:
  GapSearch(uint64_t size, GapRule rule) : size_(size), rule_(rule) {}

  // Something alive at [offset, top), offsets ascending. True when nothing better can come.
  bool pass(uint64_t offset, uint64_t top) {
    if (offset >= height_ + size_) {
      const uint64_t slack = offset - height_ - size_;
      if (slack < best_slack_) {
        best_ = height_;
        best_slack_ = slack;
        if (rule_ == GapRule::lowest || slack == 0) return true;
      }
    }
    height_ = std::max(height_, top);
    return false;
  }
  uint64_t best() const { return best_slack_ == UINT64_MAX ? height_ : best_; }

 private:
  uint64_t size_;
  GapRule rule_;
  uint64_t height_ = 0;  // everything passed ends at or below it
  uint64_t best_ = 0;
  uint64_t best_slack_ = UINT64_MAX;
};

}  // namespace

IntervalPacker::IntervalPacker(std::span<const Interval> intervals)
    : intervals_(intervals), offsets_(intervals.size(), 0) {}

uint64_t IntervalPacker::find_gap(const Interval& interval, GapRule rule) {
  GapSearch search(interval.size, rule);
  for (const uint32_t which : order_) {
    const Block& block = blocks_[which];
    pairs_ += block.count;
    for (size_t start = 0; start < block.count; start += kStride) {
      int32_t alive = 0;
      for (size_t i = start; i < start + kStride; ++i) {
        alive |= static_cast<int32_t>(block.begin[i] < interval.end) &
                 static_cast<int32_t>(block.end[i] > interval.begin);
      }
      if (alive == 0) continue;
      for (size_t i = start; i < start + kStride; ++i) {
        if (block.begin[i] >= interval.end || block.end[i] <= interval.begin) continue;
        if (search.pass(block.offset[i], block.top[i])) return search.best();
      }
    }
  }
  return search.best();
}

uint32_t IntervalPacker::new_block() {
  blocks_.emplace_back();
  Block& block = blocks_.back();
  block.begin.fill(kNeverBegins);
  block.end.fill(0);
  return static_cast<uint32_t>(blocks_.size() - 1);
}

void IntervalPacker::split(size_t position) {
  const uint32_t fresh = new_block();  // may move the others: take references after it
  Block& full = blocks_[order_[position]];
  Block& upper = blocks_[fresh];
  constexpr size_t kHalf = kBlock / 2;
  std::copy_n(full.begin.begin() + kHalf, kHalf, upper.begin.begin());
  std::copy_n(full.end.begin() + kHalf, kHalf, upper.end.begin());
  std::copy_n(full.offset.begin() + kHalf, kHalf, upper.offset.begin());
  std::copy_n(full.top.begin() + kHalf, kHalf, upper.top.begin());
  std::fill(full.begin.begin() + kHalf, full.begin.end(), kNeverBegins);
  upper.count = full.count - kHalf;
  full.count = kHalf;
  order_.insert(order_.begin() + static_cast<ptrdiff_t>(position) + 1, fresh);
}

void IntervalPacker::insert(const Interval& interval, uint64_t offset) {
  const auto after = std::upper_bound(
      order_.begin(), order_.end(), offset,
      [&](uint64_t value, uint32_t which) { return value < blocks_[which].offset[0]; });
  auto position = static_cast<size_t>(after - order_.begin());
  if (position > 0) --position;
  if (blocks_[order_[position]].count == kBlock) {
    split(position);
    if (offset >= blocks_[order_[position + 1]].offset[0]) ++position;
  }
  Block& block = blocks_[order_[position]];
  const auto end = block.offset.begin() + static_cast<ptrdiff_t>(block.count);
  const auto at = static_cast<size_t>(std::upper_bound(block.offset.begin(), end, offset) -
                                      block.offset.begin());
  const auto put = [&](auto& values, auto value) {
    const auto first = values.begin() + static_cast<ptrdiff_t>(at);
    std::copy_backward(first, values.begin() + static_cast<ptrdiff_t>(block.count),
                       values.begin() + static_cast<ptrdiff_t>(block.count) + 1);
    *first = value;
  };
  put(block.begin, interval.begin);
  put(block.end, interval.end);
  put(block.offset, offset);
  put(block.top, offset + interval.size);
  ++block.count;
}

IntervalPacker::Outcome IntervalPacker::pack(std::span<const uint32_t> order, GapRule rule,
                                             uint64_t limit) {
  blocks_.clear();
  order_.assign(1, new_block());
  Outcome outcome;
  for (size_t n = 0; n < order.size(); ++n) {
    const Interval& interval = intervals_[order[n]];
    const uint64_t offset = find_gap(interval, rule);
    const uint64_t end = offset + interval.size;
    if (end > limit) {
      outcome.failed_at = n;
      return outcome;
    }
    offsets_[order[n]] = offset;
    insert(interval, offset);
    outcome.peak = std::max(outcome.peak, end);
  }
  outcome.complete = true;
  return outcome;
}

}  // namespace laneway::memory
