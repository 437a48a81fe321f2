// Heights: how far up its lane an iteration comes that follows a plan, node by node. The nodes are
// told by marks, positions of the tape: span k is what happens between marks k and k + 1, and the
// last span what happens behind the last mark. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/planner.h"
#include "memory/tape.h"

namespace laneway::memory {

struct Heights {
  // By span: the end of the highest block that is alive at any moment of it; 0 where none is.
  std::vector<uint64_t> rise;
  // By span: the highest rise of this span and all later ones, which is what an iteration at the
  // begin of the span holds or can still get.
  std::vector<uint64_t> reach;
};

// Requires: `plan` is a plan of the tape; the marks are positions of the tape, none before an
// earlier one.
Heights heights_of(const AllocationTape& tape, const Plan& plan,
                   std::span<const TapePosition> marks);

// The spans in which a block is alive, from `first` to `last`, both included. A block that is
// freed before the first mark is alive in none, and has `last` below `first`.
struct SpanRange {
  int32_t first = 0;
  int32_t last = -1;
};

// By allocation; one that is never freed is alive to the last span.
std::vector<SpanRange> spans_of(const AllocationTape& tape, std::span<const TapePosition> marks);

}  // namespace laneway::memory
