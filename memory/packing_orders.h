// PackingOrders: the orders in which planners pack a tape's allocations, and the allocations as
// intervals of time. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "memory/interval_packer.h"
#include "memory/tape.h"

namespace laneway::memory {

using PackingOrder = std::vector<uint32_t>;  // indices of intervals

struct PackingAttempt {
  PackingOrder order;
  GapRule rule = GapRule::lowest;
};

// Lifetimes counted in allocations: alive from its own until the first that comes after its free.
std::vector<Interval> intervals_of(const AllocationTape& tape, int64_t alignment);

// Greedy orders for the lowest peak. Those that gave it on training steps come first: the later
// ones may not get their turn.
std::vector<PackingAttempt> greedy_attempts(const std::vector<Interval>& intervals);

// Indices sorted by descending key; equal keys by size, then as allocated.
template <class Key>
PackingOrder sorted_by(const std::vector<Interval>& intervals, Key key) {
  PackingOrder order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const auto left = key(a);
    const auto right = key(b);
    return left != right ? left > right : intervals[a].size > intervals[b].size;
  });
  return order;
}

}  // namespace laneway::memory
