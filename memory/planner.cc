#include "memory/planner.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "memory/free_list.h"
#include "memory/interval_packer.h"

namespace laneway::memory {
namespace {

using Order = std::vector<uint32_t>;

// The search ends after so many packings without a better one, and goes back to the best one after
// so many: small tapes settle in a few hundred, and a packing of 200 takes some 20 microseconds.
constexpr uint32_t kPatience = 4'096;
constexpr uint32_t kRestart = 64;

// Lifetimes counted in allocations: alive from its own until the first that comes after its free.
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

// Indices sorted by descending key; equal keys by size, then as allocated.
template <class Key>
Order sorted_by(const std::vector<Interval>& intervals, Key key) {
  Order order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const auto left = key(a);
    const auto right = key(b);
    return left != right ? left > right : intervals[a].size > intervals[b].size;
  });
  return order;
}

struct Attempt {
  Order order;
  GapRule rule = GapRule::lowest;
};

// Those that gave the lowest peaks on training steps first: the later ones may not get their turn.
std::vector<Attempt> greedy_attempts(const std::vector<Interval>& intervals) {
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

// The best complete packing so far.
struct Best {
  uint64_t peak = UINT64_MAX;
  std::vector<uint64_t> offsets;
  Attempt attempt;
};

// Packs below the best peak; true when that gave a new best.
bool try_attempt(IntervalPacker& packer, const Attempt& attempt, Best* best, size_t* failed_at) {
  const auto outcome = packer.pack(attempt.order, attempt.rule, best->peak - 1);
  *failed_at = outcome.failed_at;
  if (!outcome.complete) return false;
  *best = Best{outcome.peak, packer.offsets(), attempt};
  return true;
}

// Squeaky-wheel search (Joslin and Clements, 1999): whoever found no room below the best peak is
// moved forward in the order, by a random amount, and all are packed again.
void search(IntervalPacker& packer, uint64_t goal, const PlannerOptions& options, Best* best) {
  Random random(options.seed);
  Attempt attempt = best->attempt;
  uint32_t since_best = 0;
  while (best->peak > goal && packer.pairs() < options.pairs && since_best < kPatience) {
    size_t failed_at = 0;
    if (try_attempt(packer, attempt, best, &failed_at)) {
      since_best = 0;
      continue;
    }
    if (++since_best % kRestart == 0) {  // lost: start again from the best, elsewhere
      attempt = best->attempt;
      attempt.rule = random.chance(0.5) ? GapRule::lowest : GapRule::tightest;
      std::swap(attempt.order[random.below(attempt.order.size())],
                attempt.order[random.below(attempt.order.size())]);
      continue;
    }
    const size_t target = random.chance(0.5) ? 0 : random.below(failed_at + 1);
    const auto first = attempt.order.begin();
    std::rotate(first + static_cast<ptrdiff_t>(target), first + static_cast<ptrdiff_t>(failed_at),
                first + static_cast<ptrdiff_t>(failed_at) + 1);
  }
}

}  // namespace

Plan plan_tape(const AllocationTape& tape, const PlannerOptions& options) {
  const auto bound = static_cast<uint64_t>(tape.live_bound(options.alignment).count());
  if (tape.allocations.empty()) return Plan{{}, Bytes(0), options.alignment};
  const std::vector<Interval> intervals = intervals_of(tape, options.alignment);
  const auto goal =
      std::max(bound, static_cast<uint64_t>(static_cast<double>(bound) * options.good_enough));
  IntervalPacker packer(intervals);
  Best best;
  for (const Attempt& attempt : greedy_attempts(intervals)) {
    const bool enough = best.peak <= goal || packer.pairs() > options.pairs / 2;
    size_t failed_at = 0;
    if (best.peak == UINT64_MAX || !enough) try_attempt(packer, attempt, &best, &failed_at);
  }
  search(packer, goal, options, &best);
  return Plan{std::move(best.offsets), Bytes(static_cast<int64_t>(best.peak)), options.alignment};
}

Bytes simulate_best_fit(const AllocationTape& tape, int64_t alignment) {
  LW_CHECK(tape.well_formed(), "a tape frees what is not alive");
  FreeList space(kUnboundedLane, alignment);
  std::vector<Bytes> offsets;
  offsets.reserve(tape.allocations.size());
  Bytes highest;
  size_t next_free = 0;
  for (const TapeAllocation& allocation : tape.allocations) {
    for (; next_free < allocation.frees_before; ++next_free) {
      space.free(offsets[tape.frees[next_free]]);
    }
    const Bytes size = padded_size(allocation.bytes, alignment);
    const auto offset = space.allocate(size);
    LW_CHECK(offset.has_value());
    offsets.push_back(*offset);
    highest = std::max(highest, *offset + size);
  }
  return highest;
}

}  // namespace laneway::memory
