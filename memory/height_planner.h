// HeightPlanner: a second plan of a tape, for whoever shares a region from both ends. A plan with
// the lowest peak is often as high as its peak from the begin of an iteration to its end. This one
// stays low at every moment: what counts is the height (memory/heights.h) of each span of the tape,
// weighted by the time that the span takes, and the peak may lie a little above the bound.
//
// The search packs in the planner's orders, then moves single allocations forward that lie on top
// of a gap. It is seeded and bounded by counting, so the same tape, marks and weights give the same
// plan everywhere. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "memory/planner.h"
#include "memory/tape.h"

namespace laneway::memory {

struct HeightOptions {
  int64_t alignment = 64;  // a power of two
  uint64_t seed = 1;
  // The peak is at most the bound times this, or that of plan_tape's plan where even that one lies
  // above it.
  double highest = 1.08;
  // The search ends after comparing this many pairs of allocations, as PlannerOptions::pairs, not
  // counting those of plan_tape,
  uint64_t pairs = 800'000'000;
  // or after so many packings.
  uint32_t packings = 20'000;
};

// `weights`: by mark, the time of the span that begins there; their unit does not matter. Requires:
// the tape is well-formed, `marks` are positions of it, none before an earlier one, and there are
// as many weights as marks, none below 0.
Plan plan_heights(const AllocationTape& tape, std::span<const TapePosition> marks,
                  std::span<const double> weights, const HeightOptions& options);

}  // namespace laneway::memory
