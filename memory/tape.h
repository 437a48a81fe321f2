// AllocationTape: the sequence of allocation events of one iteration, as a probe records it: the
// size of each allocation, and the frees between them, in order. The sequence is the same in every
// iteration; therefore a plan is possible. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace laneway::memory {

struct TapeAllocation {
  uint64_t bytes = 0;         // requested size, before alignment
  uint32_t frees_before = 0;  // how many frees of this iteration precede it
};

// The position of a tape's writer at the moment of a mark.
struct TapePosition {
  uint32_t allocations = 0;  // allocations made before the mark
  uint32_t frees = 0;        // frees done before the mark
  friend bool operator==(const TapePosition&, const TapePosition&) = default;
};

// The bytes of a lane that an allocation of `bytes` takes: rounded up to `alignment` (a power of
// two); an empty allocation takes one unit, so that every live allocation has an address of its
// own.
constexpr Bytes padded_size(uint64_t bytes, int64_t alignment) {
  return Bytes(static_cast<int64_t>(bytes == 0 ? 1 : bytes)).aligned_up(alignment);
}

struct AllocationTape {
  std::vector<TapeAllocation> allocations;
  std::vector<uint32_t> frees;  // indices into allocations, in the order in which they were freed
  // Equal tapes have equal hashes on every machine: the key of plan caches.
  uint64_t hash() const;
  // Whether frees name allocations made before them, each at most once, and counts never decrease.
  // The tapes of a LaneArena are well-formed; the functions that read tapes require it.
  bool well_formed() const;
  // The highest sum of live bytes, each allocation padded to `alignment`: no plan can have a lower
  // peak.
  Bytes live_bound(int64_t alignment) const;
};

}  // namespace laneway::memory
