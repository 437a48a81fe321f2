#include "memory/height_planner.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "memory/heights.h"
#include "memory/interval_packer.h"
#include "memory/packing_orders.h"

namespace laneway::memory {
namespace {

// Packings without a lower one before the search goes back to the best order.
constexpr uint32_t kRestart = 100;

// By span: the block that ends highest, and weight times height above the live bytes.
struct Tops {
  std::vector<uint32_t> block;
  std::vector<double> excess;
};

// A block on top of a gap, the likelier the larger the gap and the longer its time.
uint32_t draw_top(const Tops& tops, Random& random) {
  const double sum = std::accumulate(tops.excess.begin(), tops.excess.end(), 0.0);
  double left = random.unit() * sum;
  for (size_t k = 0; k < tops.excess.size(); ++k) {
    left -= tops.excess[k];
    if (left < 0) return tops.block[k];
  }
  return tops.block.empty() ? 0 : tops.block.front();
}

// What a packing comes to: the weighted sum of heights.
class HeightCost {
 public:
  HeightCost(const AllocationTape& tape, std::span<const TapePosition> marks,
             std::span<const double> weights, const std::vector<Interval>& intervals)
      : spans_(spans_of(tape, marks)),
        weights_(weights),
        intervals_(intervals),
        live_(highest_live(tape, marks)),
        by_end_(intervals.size()),
        next_(marks.size() + 1) {
    std::iota(by_end_.begin(), by_end_.end(), 0);
  }

  // Of the packing with these offsets, and its tops. Spans are given to blocks from the highest end
  // down: each span goes to the first block that is alive in it.
  double of(const std::vector<uint64_t>& offsets, Tops* tops) {
    const auto end = [&](uint32_t i) { return offsets[i] + intervals_[i].size; };
    std::sort(by_end_.begin(), by_end_.end(),
              [&](uint32_t a, uint32_t b) { return end(a) != end(b) ? end(a) > end(b) : a < b; });
    std::iota(next_.begin(), next_.end(), 0);
    tops->block.assign(weights_.size(), 0);
    tops->excess.assign(weights_.size(), 0.0);
    double cost = 0;
    for (const uint32_t i : by_end_) {
      for (uint32_t k = free_from(static_cast<uint32_t>(spans_[i].first));
           static_cast<int32_t>(k) <= spans_[i].last; k = free_from(k)) {
        tops->block[k] = i;
        tops->excess[k] = weights_[k] * static_cast<double>(end(i) - live_[k]);
        cost += weights_[k] * static_cast<double>(end(i));
        next_[k] = k + 1;
      }
    }
    return cost;
  }

 private:
  // The first span from k on that no block has yet; one past the last is always free.
  uint32_t free_from(uint32_t k) {
    while (next_[k] != k) {
      next_[k] = next_[next_[k]];
      k = next_[k];
    }
    return k;
  }

  std::vector<uint64_t> highest_live(const AllocationTape& tape,
                                     std::span<const TapePosition> marks) const {
    std::vector<uint64_t> highest(marks.size(), 0);
    uint64_t live = 0;
    uint32_t freed = 0;
    size_t span = 0;
    const auto free_to = [&](uint32_t count) {
      for (; freed < count; ++freed) live -= intervals_[tape.frees[freed]].size;
    };
    for (uint32_t i = 0; i < intervals_.size(); ++i) {
      for (; span < marks.size() && marks[span].allocations <= i; ++span) {
        free_to(marks[span].frees);
        highest[span] = live;
      }
      free_to(tape.allocations[i].frees_before);
      live += intervals_[i].size;
      if (span > 0) highest[span - 1] = std::max(highest[span - 1], live);
    }
    for (; span < marks.size(); ++span) {
      free_to(marks[span].frees);
      highest[span] = live;
    }
    return highest;
  }

  const std::vector<SpanRange> spans_;
  const std::span<const double> weights_;
  const std::vector<Interval>& intervals_;
  const std::vector<uint64_t> live_;  // by span: the highest sum of live bytes
  std::vector<uint32_t> by_end_;      // blocks, the highest end first
  std::vector<uint32_t> next_;        // by span: itself while no block has it
};

// One packer, and what its packings come to.
class HeightSearch {
 public:
  HeightSearch(const std::vector<Interval>& intervals, HeightCost& cost, uint64_t limit,
               const HeightOptions& options)
      : packer_(intervals), cost_(cost), limit_(limit), options_(options), random_(options.seed) {}

  // Packs in this order, and keeps it if it is the lowest so far.
  void try_attempt(PackingAttempt attempt) {
    if (!plan_.offsets.empty() && !may_go_on()) return;
    Stand stand{.attempt = std::move(attempt), .cost = 0, .tops = {}};
    pack(&stand);
    if (stand.cost < best_.cost) keep(stand);
  }

  // Moves blocks forward that lie on top of a gap, again and again.
  void improve() {
    Stand stand = best_;
    Stand moved;
    for (uint32_t since_best = 1; may_go_on(); ++since_best) {
      if (since_best % kRestart == 0) stand = best_;
      moved.attempt = stand.attempt;
      move_forward(draw_top(stand.tops, random_), moved.attempt.order);
      pack(&moved);
      if (moved.cost > stand.cost) continue;
      std::swap(stand, moved);
      if (stand.cost >= best_.cost) continue;
      keep(stand);
      since_best = 0;
    }
  }

  Plan take() { return std::move(plan_); }

 private:
  bool may_go_on() const {
    return packer_.pairs() < options_.pairs && packings_ < options_.packings;
  }

  // A packing in an order.
  struct Stand {
    PackingAttempt attempt;
    double cost = std::numeric_limits<double>::infinity();  // infinite: not below the limit
    Tops tops;
  };

  void pack(Stand* stand) {
    ++packings_;
    const auto outcome = packer_.pack(stand->attempt.order, stand->attempt.rule, limit_);
    peak_ = outcome.peak;
    stand->cost = outcome.complete ? cost_.of(packer_.offsets(), &stand->tops)
                                   : std::numeric_limits<double>::infinity();
  }

  // The last packing is the best one.
  void keep(const Stand& stand) {
    best_ = stand;
    plan_ = {packer_.offsets(), Bytes(static_cast<int64_t>(peak_)), options_.alignment};
  }

  void move_forward(uint32_t block, PackingOrder& order) {
    const auto at = std::find(order.begin(), order.end(), block);
    const auto position = static_cast<uint64_t>(at - order.begin());
    const auto target = order.begin() + static_cast<ptrdiff_t>(
                                            random_.chance(0.3) ? 0 : random_.below(position + 1));
    std::rotate(target, at, at + 1);
  }

  IntervalPacker packer_;
  HeightCost& cost_;
  const uint64_t limit_;
  const HeightOptions& options_;
  Random random_;
  uint64_t peak_ = 0;
  uint32_t packings_ = 0;
  Stand best_;
  Plan plan_;
};

// The offsets of a plan as an order: packed again, each block lies where it lay or lower.
PackingAttempt bottom_up(const std::vector<Interval>& intervals, const Plan& plan) {
  return {sorted_by(intervals, [&](uint32_t i) { return -static_cast<int64_t>(plan.offsets[i]); }),
          GapRule::lowest};
}

}  // namespace

Plan plan_heights(const AllocationTape& tape, std::span<const TapePosition> marks,
                  std::span<const double> weights, const HeightOptions& options) {
  LW_CHECK(marks.size() == weights.size(), "a height plan has one weight for each mark");
  Plan lowest = plan_tape(tape, {.alignment = options.alignment});
  if (tape.allocations.empty()) return lowest;
  const std::vector<Interval> intervals = intervals_of(tape, options.alignment);
  const auto bound = static_cast<double>(tape.live_bound(options.alignment).count());
  const uint64_t limit = std::max(static_cast<uint64_t>(lowest.peak.count()),
                                  static_cast<uint64_t>(bound * options.highest));
  HeightCost cost(tape, marks, weights, intervals);
  HeightSearch search(intervals, cost, limit, options);
  search.try_attempt(bottom_up(intervals, lowest));
  for (PackingAttempt& attempt : greedy_attempts(intervals)) {
    attempt.rule = GapRule::lowest;
    search.try_attempt(std::move(attempt));
  }
  search.improve();
  return search.take();
}

}  // namespace laneway::memory
