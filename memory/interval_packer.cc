#include "memory/interval_packer.h"

#include <algorithm>

namespace laneway::memory {

IntervalPacker::IntervalPacker(std::span<const Interval> intervals)
    : intervals_(intervals), offsets_(intervals.size(), 0) {
  lifetimes_.reserve(intervals.size());
  placed_.reserve(intervals.size());
}

uint64_t IntervalPacker::find_gap(const Interval& interval, GapRule rule, size_t* position) {
  uint64_t top = 0;  // everything alive with `interval` and seen so far ends at or below it
  uint64_t best = UINT64_MAX;
  uint64_t best_slack = UINT64_MAX;
  const size_t count = placed_.size();
  size_t i = 0;
  for (; i < count; ++i) {
    const Lifetime other = lifetimes_[i];
    if (other.end <= interval.begin || interval.end <= other.begin) continue;
    const Placed& placed = placed_[i];
    if (placed.offset >= top + interval.size) {
      const uint64_t slack = placed.offset - top - interval.size;
      if (slack < best_slack) {
        best = top;
        best_slack = slack;
        if (rule == GapRule::lowest || slack == 0) break;
      }
    }
    top = std::max(top, placed.end);
  }
  pairs_ += i;
  if (best == UINT64_MAX) best = top;
  *position = static_cast<size_t>(
      std::upper_bound(placed_.begin(), placed_.end(), best,
                       [](uint64_t offset, const Placed& p) { return offset < p.offset; }) -
      placed_.begin());
  return best;
}

IntervalPacker::Outcome IntervalPacker::pack(std::span<const uint32_t> order, GapRule rule,
                                             uint64_t limit) {
  placed_.clear();
  lifetimes_.clear();
  Outcome outcome;
  for (size_t n = 0; n < order.size(); ++n) {
    const uint32_t index = order[n];
    const Interval& interval = intervals_[index];
    size_t position = 0;
    const uint64_t offset = find_gap(interval, rule, &position);
    const uint64_t end = offset + interval.size;
    if (end > limit) {
      outcome.failed_at = n;
      return outcome;
    }
    offsets_[index] = offset;
    placed_.insert(placed_.begin() + static_cast<ptrdiff_t>(position), {offset, end, index});
    lifetimes_.insert(lifetimes_.begin() + static_cast<ptrdiff_t>(position),
                      {interval.begin, interval.end});
    outcome.peak = std::max(outcome.peak, end);
  }
  outcome.complete = true;
  return outcome;
}

}  // namespace laneway::memory
