// PlannedTape: a tape and its plan, laid out for replay: what LaneArena reads at each allocation
// and each free is one entry of an array, in the order in which it will be asked for. Immutable
// once made and shared by every iteration; safe to read from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "memory/planner.h"
#include "memory/tape.h"

namespace laneway::memory {

struct PlannedTape {
  struct Step {
    uint64_t bytes = 0;  // what the n-th allocation asks for
    uint64_t offset = 0;
    uint64_t end = 0;           // offset + padded size
    uint32_t frees_before = 0;  // frees that must have happened by then
  };
  // One more of each than the tape has: an entry that never matches, so that replay needs no
  // comparison with the end.
  static constexpr uint64_t kNeverMatches = UINT64_MAX;

  AllocationTape tape;
  Plan plan;
  std::vector<Step> steps;
  std::vector<uint64_t> free_offsets;  // of the n-th free
};

// `plan` must be a plan of this tape.
std::shared_ptr<const PlannedTape> make_planned_tape(AllocationTape tape, Plan plan);

}  // namespace laneway::memory
