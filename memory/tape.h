// AllocationTape: the sequence of allocation events of one iteration, as a probe records it: for
// each allocation its size, and for each moment which allocations were freed by then, in order.
// The same in every iteration, which is what makes a plan possible. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace laneway::memory {

struct TapeAllocation {
  uint64_t bytes = 0;         // as asked for, before alignment
  uint32_t frees_before = 0;  // how many frees of this iteration precede it
};

struct AllocationTape {
  std::vector<TapeAllocation> allocations;
  std::vector<uint32_t> frees;  // indices into allocations, in the order in which they were freed
  // Equal tapes have equal hashes on every machine: the key of plan caches.
  uint64_t hash() const;
  // Highest sum of live bytes, each rounded up to `alignment`: no plan can be lower.
  Bytes live_bound(int64_t alignment) const;
};

}  // namespace laneway::memory
