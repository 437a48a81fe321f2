// Planner: turns the tape of an iteration into offsets, one for each allocation, so that no two
// allocations that are alive together overlap, and the highest byte is as low as the search can
// find. From then on the n-th allocation of every iteration gets the n-th offset.
//
// This is dynamic storage allocation, which is NP-hard, but easy for most training steps. Several
// greedy orders (by size, by lifetime, by when they end, …) are packed and the best is kept; if
// none reaches the bound (the highest sum of live bytes), a seeded search continues from the best.
// The work is bounded by counting, never by a clock, so the same tape gives the same plan
// everywhere. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "memory/tape.h"

namespace laneway::memory {

struct Plan {
  std::vector<uint64_t> offsets;  // by allocation; multiples of the alignment
  Bytes peak;                     // end of the highest allocation
  int64_t alignment = 0;
};

struct PlannerOptions {
  int64_t alignment = 64;  // a power of two
  uint64_t seed = 1;
  // Planning stops when the peak is at most bound * this,
  double good_enough = 1.002;
  // or after comparing this many pairs of allocations (one to three nanoseconds each). The greedy
  // orders get half of them, and one order is always tried.
  uint64_t pairs = 150'000'000;
};

// Plans a tape. Allocations that the tape never frees stay alive to its end. Requires: the tape is
// well-formed.
Plan plan_tape(const AllocationTape& tape, const PlannerOptions& options);

// The height that a lane's best-fit allocator (a probe) reaches on this tape.
Bytes simulate_best_fit(const AllocationTape& tape, int64_t alignment);

}  // namespace laneway::memory
