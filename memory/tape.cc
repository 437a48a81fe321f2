#include "memory/tape.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace laneway::memory {
namespace {

// FNV-1a over the eight bytes of a word, least significant first.
uint64_t mixed(uint64_t hash, uint64_t word) {
  for (int shift = 0; shift < 64; shift += 8) {
    hash ^= (word >> shift) & 0xff;
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace

uint64_t AllocationTape::hash() const {
  uint64_t hash = mixed(0xcbf29ce484222325ULL, allocations.size());
  for (const TapeAllocation& allocation : allocations) {
    hash = mixed(hash, allocation.bytes);
    hash = mixed(hash, allocation.frees_before);
  }
  hash = mixed(hash, frees.size());
  for (const uint32_t index : frees) hash = mixed(hash, index);
  return hash;
}

bool AllocationTape::well_formed() const {
  std::vector<bool> freed(allocations.size(), false);
  size_t next_free = 0;
  for (size_t i = 0; i <= allocations.size(); ++i) {
    const size_t frees_by_now = i < allocations.size() ? allocations[i].frees_before : frees.size();
    if (frees_by_now < next_free || frees_by_now > frees.size()) return false;
    for (; next_free < frees_by_now; ++next_free) {
      const uint32_t index = frees[next_free];
      if (index >= i || freed[index]) return false;
      freed[index] = true;
    }
  }
  return true;
}

Bytes AllocationTape::live_bound(int64_t alignment) const {
  LW_CHECK(well_formed(), "a tape frees what is not alive");
  Bytes live;
  Bytes highest;
  size_t next_free = 0;
  for (const TapeAllocation& allocation : allocations) {
    for (; next_free < allocation.frees_before; ++next_free) {
      live -= padded_size(allocations[frees[next_free]].bytes, alignment);
    }
    live += padded_size(allocation.bytes, alignment);
    highest = std::max(highest, live);
  }
  return highest;
}

}  // namespace laneway::memory
