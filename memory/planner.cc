#include "memory/planner.h"

#include <algorithm>
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

// Lifetimes in event time: allocations and frees count as one event each.
std::vector<Interval> intervals_of(const AllocationTape& tape, int64_t alignment) {
  const size_t count = tape.allocations.size();
  const auto last = static_cast<uint32_t>(count + tape.frees.size());
  std::vector<Interval> intervals(count);
  uint32_t now = 0;
  size_t next_free = 0;
  for (size_t i = 0; i < count; ++i) {
    for (; next_free < tape.allocations[i].frees_before; ++next_free) {
      intervals[tape.frees[next_free]].end = now++;
    }
    intervals[i].size =
        static_cast<uint64_t>(padded_size(tape.allocations[i].bytes, alignment).count());
    intervals[i].begin = now++;
    intervals[i].end = last + 1;
  }
  for (; next_free < tape.frees.size(); ++next_free) intervals[tape.frees[next_free]].end = now++;
  return intervals;
}

// For each interval the highest sum of live bytes at the moments of allocation in its lifetime:
// where it is crowded, order matters most.
std::vector<uint64_t> contention_of(const std::vector<Interval>& intervals) {
  uint32_t last = 0;
  for (const Interval& interval : intervals) last = std::max(last, interval.end);
  std::vector<int64_t> change(last + 1, 0);
  for (const Interval& interval : intervals) {
    change[interval.begin] += static_cast<int64_t>(interval.size);
    change[interval.end] -= static_cast<int64_t>(interval.size);
  }
  // Sparse table of range maxima over the live curve.
  std::vector<std::vector<uint64_t>> highest(1, std::vector<uint64_t>(last + 1, 0));
  int64_t live = 0;
  for (uint32_t t = 0; t <= last; ++t) {
    live += change[t];
    highest[0][t] = static_cast<uint64_t>(live);
  }
  for (size_t level = 1; (size_t{1} << level) <= last + 1; ++level) {
    const size_t half = size_t{1} << (level - 1);
    const auto& below = highest[level - 1];
    std::vector<uint64_t> row(last + 2 - 2 * half);
    for (size_t t = 0; t < row.size(); ++t) row[t] = std::max(below[t], below[t + half]);
    highest.push_back(std::move(row));
  }
  std::vector<uint64_t> contention;
  contention.reserve(intervals.size());
  for (const Interval& interval : intervals) {
    const uint32_t length = interval.end - interval.begin;
    size_t level = 0;
    while ((size_t{2} << level) <= length) ++level;
    contention.push_back(std::max(highest[level][interval.begin],
                                  highest[level][interval.end - (size_t{1} << level)]));
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

std::vector<Order> greedy_orders(const std::vector<Interval>& intervals) {
  const std::vector<uint64_t> contention = contention_of(intervals);
  const auto length = [&](uint32_t i) -> uint64_t { return intervals[i].end - intervals[i].begin; };
  const auto size = [&](uint32_t i) { return intervals[i].size; };
  using Pair = std::pair<uint64_t, uint64_t>;
  std::vector<Order> orders;
  orders.push_back(sorted_by(intervals, size));
  orders.push_back(sorted_by(intervals, [&](uint32_t i) { return intervals[i].end; }));
  orders.push_back(sorted_by(intervals, [&](uint32_t i) { return size(i) * length(i); }));
  orders.push_back(sorted_by(intervals, [&](uint32_t i) { return Pair(contention[i], size(i)); }));
  orders.push_back(
      sorted_by(intervals, [&](uint32_t i) { return Pair(contention[i], length(i)); }));
  orders.push_back(sorted_by(intervals, [&](uint32_t i) { return length(i); }));
  orders.push_back(
      sorted_by(intervals, [&](uint32_t i) { return UINT32_MAX - intervals[i].begin; }));
  return orders;
}

// The best complete packing so far.
struct Best {
  uint64_t peak = UINT64_MAX;
  std::vector<uint64_t> offsets;
  Order order;
  GapRule rule = GapRule::lowest;
};

// Packs below the best peak; true when that gave a new best.
bool try_order(IntervalPacker& packer, const Order& order, GapRule rule, Best* best,
               size_t* failed_at) {
  const auto outcome = packer.pack(order, rule, best->peak - 1);
  *failed_at = outcome.failed_at;
  if (!outcome.complete) return false;
  *best = Best{outcome.peak, packer.offsets(), order, rule};
  return true;
}

// Squeaky-wheel search (Joslin and Clements, 1999): whoever found no room below the best peak is
// moved forward in the order, by a random amount, and all are packed again.
void search(IntervalPacker& packer, uint64_t goal, const PlannerOptions& options, Best* best) {
  Random random(options.seed);
  const uint64_t stop_at = packer.pairs() + options.search_pairs;
  Order order = best->order;
  GapRule rule = best->rule;
  size_t since_best = 0;
  while (best->peak > goal && packer.pairs() < stop_at) {
    size_t failed_at = 0;
    if (try_order(packer, order, rule, best, &failed_at)) {
      since_best = 0;
      continue;
    }
    if (++since_best % 64 == 0) {  // lost: start again from the best, elsewhere
      order = best->order;
      rule = random.chance(0.5) ? GapRule::lowest : GapRule::tightest;
      const size_t a = random.below(order.size());
      std::swap(order[a], order[random.below(order.size())]);
      continue;
    }
    const size_t target = random.chance(0.5) ? 0 : random.below(failed_at + 1);
    std::rotate(order.begin() + static_cast<ptrdiff_t>(target),
                order.begin() + static_cast<ptrdiff_t>(failed_at),
                order.begin() + static_cast<ptrdiff_t>(failed_at) + 1);
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
  for (const Order& order : greedy_orders(intervals)) {
    for (const GapRule rule : {GapRule::tightest, GapRule::lowest}) {
      size_t failed_at = 0;
      if (best.peak > bound) try_order(packer, order, rule, &best, &failed_at);
    }
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
