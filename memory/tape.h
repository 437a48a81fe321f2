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

// How far a tape had come at some moment: where its writer stood when that moment was marked.
struct TapePosition {
  uint32_t allocations = 0;  // made by then
  uint32_t frees = 0;        // done by then
  friend bool operator==(const TapePosition&, const TapePosition&) = default;
};

// What an allocation of `bytes` takes of a lane: rounded up to `alignment` (a power of two), one
// unit of it for an empty one, so that every live allocation has an address of its own.
constexpr Bytes padded_size(uint64_t bytes, int64_t alignment) {
  return Bytes(static_cast<int64_t>(bytes == 0 ? 1 : bytes)).aligned_up(alignment);
}

struct AllocationTape {
  std::vector<TapeAllocation> allocations;
  std::vector<uint32_t> frees;  // indices into allocations, in the order in which they were freed
  // Equal tapes have equal hashes on every machine: the key of plan caches.
  uint64_t hash() const;
  // Whether frees name allocations made before them, each at most once, and counts never go back.
  // What a LaneArena records always is; the functions that read tapes require it.
  bool well_formed() const;
  // Highest sum of live bytes, each padded to `alignment`: no plan can be lower.
  Bytes live_bound(int64_t alignment) const;
};

}  // namespace laneway::memory
