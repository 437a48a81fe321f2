#include "tests/support/plan_check.h"

#include <algorithm>
#include <map>

namespace laneway::memory {
namespace {

Error overlap(size_t a, size_t b) {
  return Error{ErrorCode::internal, "allocations " + std::to_string(a) + " and " +
                                        std::to_string(b) + " are alive together and overlap"};
}

}  // namespace

// Plays the tape once and keeps what is alive, by offset: a new one may touch neither neighbour.
Status check_plan(const AllocationTape& tape, const Plan& plan) {
  if (plan.offsets.size() != tape.allocations.size()) {
    return Error{ErrorCode::internal, "the plan places " + std::to_string(plan.offsets.size()) +
                                          " of " + std::to_string(tape.allocations.size()) +
                                          " allocations"};
  }
  struct Live {
    uint64_t end;
    size_t index;
  };
  std::map<uint64_t, Live> live;
  size_t freed = 0;
  for (size_t i = 0; i < tape.allocations.size(); ++i) {
    for (; freed < tape.allocations[i].frees_before; ++freed) {
      live.erase(plan.offsets[tape.frees[freed]]);
    }
    const uint64_t begin = plan.offsets[i];
    const uint64_t end = begin + std::max<uint64_t>(tape.allocations[i].bytes, 1);
    if (begin % static_cast<uint64_t>(plan.alignment) != 0) {
      return Error{ErrorCode::internal, "allocation " + std::to_string(i) + " is not aligned"};
    }
    if (end > static_cast<uint64_t>(plan.peak.count())) {
      return Error{ErrorCode::internal,
                   "allocation " + std::to_string(i) + " ends above the plan's peak"};
    }
    const auto after = live.lower_bound(begin);
    if (after != live.end() && after->first < end) return overlap(after->second.index, i);
    if (after != live.begin()) {
      const auto before = std::prev(after);
      if (before->second.end > begin) return overlap(before->second.index, i);
    }
    live.emplace(begin, Live{end, i});
  }
  return {};
}

}  // namespace laneway::memory
