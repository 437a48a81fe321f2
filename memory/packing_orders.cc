#include "memory/packing_orders.h"

#include <bit>
#include <utility>

#include "base/check.h"

namespace laneway::memory {
namespace {

// For each interval the highest sum of live bytes at the moments of allocation in its lifetime:
// where it is crowded, order matters most.
std::vector<uint64_t> contention_of(const std::vector<Interval>& intervals) {
  const size_t count = intervals.size();
  std::vector<int64_t> change(count + 1, 0);
  for (const Interval& interval : intervals) {
    change[interval.begin] += static_cast<int64_t>(interval.size);
    change[interval.end] -= static_cast<int64_t>(interval.size);
  }
  // Sparse table: row k holds the highest of 2^k moments from each on.
  std::vector<std::vector<uint64_t>> highest(1, std::vector<uint64_t>(count, 0));
  int64_t live = 0;
  for (size_t t = 0; t < count; ++t) {
    live += change[t];
    highest[0][t] = static_cast<uint64_t>(live);
  }
  for (size_t half = 1; 2 * half <= count; half *= 2) {
    const auto& below = highest.back();
    std::vector<uint64_t> row(count + 1 - 2 * half);
    for (size_t t = 0; t < row.size(); ++t) row[t] = std::max(below[t], below[t + half]);
    highest.push_back(std::move(row));
  }
  std::vector<uint64_t> contention;
  contention.reserve(count);
  for (const Interval& interval : intervals) {
    LW_CHECK(interval.begin < interval.end, "an allocation that lives at no time");
    const auto length = static_cast<uint32_t>(interval.end - interval.begin);
    const auto level = static_cast<size_t>(std::bit_width(length)) - 1;
    const auto& row = highest[level];
    const size_t last = static_cast<size_t>(interval.end) - (size_t{1} << level);
    contention.push_back(std::max(row[interval.begin], row[last]));
  }
  return contention;
}

}  // namespace

std::vector<Interval> intervals_of(const AllocationTape& tape, int64_t alignment) {
  const size_t count = tape.allocations.size();
  LW_CHECK(count < INT32_MAX, "a tape of more than 2^31 allocations");
  std::vector<Interval> intervals(count);
  size_t freed = 0;
  for (size_t i = 0; i < count; ++i) {
    for (; freed < tape.allocations[i].frees_before; ++freed) {
      intervals[tape.frees[freed]].end = static_cast<int32_t>(i);
    }
    intervals[i].size =
        static_cast<uint64_t>(padded_size(tape.allocations[i].bytes, alignment).count());
    intervals[i].begin = static_cast<int32_t>(i);
    intervals[i].end = static_cast<int32_t>(count);
  }
  return intervals;
}

std::vector<PackingAttempt> greedy_attempts(const std::vector<Interval>& intervals) {
  const std::vector<uint64_t> contention = contention_of(intervals);
  const auto length = [&](uint32_t i) {
    return static_cast<uint64_t>(intervals[i].end - intervals[i].begin);
  };
  const auto size = [&](uint32_t i) { return intervals[i].size; };
  const auto area = [&](uint32_t i) { return size(i) * length(i); };
  const auto latest_end = [&](uint32_t i) { return intervals[i].end; };
  const auto first_begin = [&](uint32_t i) { return -intervals[i].begin; };
  using Pair = std::pair<uint64_t, uint64_t>;
  const auto crowded_long = [&](uint32_t i) { return Pair(contention[i], length(i)); };
  const auto crowded_large = [&](uint32_t i) { return Pair(contention[i], size(i)); };
  return {
      {sorted_by(intervals, crowded_long), GapRule::tightest},
      {sorted_by(intervals, size), GapRule::lowest},
      {sorted_by(intervals, crowded_large), GapRule::tightest},
      {sorted_by(intervals, area), GapRule::lowest},
      {sorted_by(intervals, crowded_long), GapRule::lowest},
      {sorted_by(intervals, size), GapRule::tightest},
      {sorted_by(intervals, crowded_large), GapRule::lowest},
      {sorted_by(intervals, latest_end), GapRule::tightest},
      {sorted_by(intervals, length), GapRule::tightest},
      {sorted_by(intervals, first_begin), GapRule::tightest},
  };
}

}  // namespace laneway::memory
