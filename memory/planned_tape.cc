#include "memory/planned_tape.h"

#include <bit>
#include <iterator>
#include <map>
#include <utility>

#include "base/check.h"

namespace laneway::memory {
namespace {

// What is alive, as ends by offset.
class LiveRanges {
 public:
  // False when a part of the range is taken.
  bool take(uint64_t offset, uint64_t end) {
    const auto after = ends_.lower_bound(offset);
    if (after != ends_.end() && after->first < end) return false;
    if (after != ends_.begin() && std::prev(after)->second > offset) return false;
    ends_.emplace_hint(after, offset, end);
    return true;
  }
  void give_back(uint64_t offset) { ends_.erase(offset); }

 private:
  std::map<uint64_t, uint64_t> ends_;
};

}  // namespace

bool is_plan_of(const AllocationTape& tape, const Plan& plan) {
  if (!tape.well_formed() || plan.offsets.size() != tape.allocations.size()) return false;
  const auto peak = static_cast<uint64_t>(plan.peak.count());
  const auto alignment = static_cast<uint64_t>(plan.alignment);
  if (plan.peak < Bytes() || plan.alignment <= 0 || !std::has_single_bit(alignment)) return false;
  LiveRanges live;
  size_t freed = 0;
  for (size_t i = 0; i < tape.allocations.size(); ++i) {
    for (; freed < tape.allocations[i].frees_before; ++freed) {
      live.give_back(plan.offsets[tape.frees[freed]]);
    }
    const uint64_t bytes = tape.allocations[i].bytes;
    const uint64_t offset = plan.offsets[i];
    if (bytes > peak || offset > peak || offset % alignment != 0) return false;
    const auto end = offset + static_cast<uint64_t>(padded_size(bytes, plan.alignment).count());
    if (end > peak || !live.take(offset, end)) return false;
  }
  return true;
}

std::shared_ptr<const PlannedTape> make_planned_tape(AllocationTape tape, Plan plan) {
  LW_CHECK(tape.well_formed(), "a tape frees what is not alive");
  LW_CHECK(plan.offsets.size() == tape.allocations.size(), "a plan of another tape");
  auto planned = std::make_shared<PlannedTape>();
  planned->steps.reserve(tape.allocations.size() + 1);
  for (size_t i = 0; i < tape.allocations.size(); ++i) {
    const TapeAllocation& allocation = tape.allocations[i];
    const auto size = static_cast<uint64_t>(padded_size(allocation.bytes, plan.alignment).count());
    planned->steps.push_back(
        {allocation.bytes, plan.offsets[i], plan.offsets[i] + size, allocation.frees_before});
  }
  planned->steps.push_back({PlannedTape::kNeverMatches, 0, 0, 0});
  planned->free_offsets.reserve(tape.frees.size() + 1);
  for (const uint32_t index : tape.frees) planned->free_offsets.push_back(plan.offsets[index]);
  planned->free_offsets.push_back(PlannedTape::kNeverMatches);
  planned->tape = std::move(tape);
  planned->plan = std::move(plan);
  return planned;
}

}  // namespace laneway::memory
