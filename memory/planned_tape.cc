#include "memory/planned_tape.h"

#include <utility>

#include "base/check.h"

namespace laneway::memory {

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
