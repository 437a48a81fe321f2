#include "memory/planner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "memory/free_list.h"
#include "memory/interval_packer.h"
#include "memory/packing_orders.h"

namespace laneway::memory {
namespace {

// The search ends after so many packings without a better one, and goes back to the best one after
// so many: small tapes settle in a few hundred, and a packing of 200 takes some 20 microseconds.
constexpr uint32_t kPatience = 4'096;
constexpr uint32_t kRestart = 64;

// The best complete packing so far.
struct Best {
  uint64_t peak = UINT64_MAX;
  std::vector<uint64_t> offsets;
  PackingAttempt attempt;
};

// Packs below the best peak; true when that gave a new best.
bool try_attempt(IntervalPacker& packer, const PackingAttempt& attempt, Best* best,
                 size_t* failed_at) {
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
  PackingAttempt attempt = best->attempt;
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
  for (const PackingAttempt& attempt : greedy_attempts(intervals)) {
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
