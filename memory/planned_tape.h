// PlannedTape: a tape and its plan, laid out for replay: at each allocation and each free,
// LaneArena reads one entry of an array, in the order of the tape. Immutable, shared by all
// iterations; several threads may read it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "memory/planner.h"
#include "memory/tape.h"

namespace laneway::memory {

struct PlannedTape {
  struct Step {
    uint64_t bytes = 0;  // the size of the n-th allocation
    uint64_t offset = 0;
    uint64_t end = 0;           // offset + padded size
    uint32_t frees_before = 0;  // number of frees that precede it
  };
  // `steps` and `free_offsets` each have one entry more than the tape. It never matches, so replay
  // needs no comparison with the end.
  static constexpr uint64_t kNeverMatches = UINT64_MAX;

  AllocationTape tape;
  Plan plan;
  std::vector<Step> steps;
  std::vector<uint64_t> free_offsets;  // the offset that the n-th free names
};

// Whether `plan`, of an alignment that is a power of two, is a plan of this tape: each allocation
// lies at a multiple of the alignment, below the peak, and apart from all that are alive with it.
// Anything may be asked about; plans that this process did not make itself must be.
bool is_plan_of(const AllocationTape& tape, const Plan& plan);

// Requires: `plan` is a plan of this tape.
std::shared_ptr<const PlannedTape> make_planned_tape(AllocationTape tape, Plan plan);

}  // namespace laneway::memory
