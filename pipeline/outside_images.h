// OutsideImages: the bytes of images that are not, or not only, in the pool: the stores, by their
// tier. It believes no place, because places come from another process, and joins what comes back
// with the beginning that stayed in the pool. Not thread-safe, but for one thread a store.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "lanes/pool/outside_place.h"
#include "memory/pool_access.h"
#include "pipeline/outside_store.h"

namespace laneway::pipeline {

class OutsideImages {
 public:
  // Requires: `tier` is not none, and has no store yet.
  void add(lanes::Tier tier, std::unique_ptr<OutsideStore> store);

  bool exist() const;
  // Where the image lies in the CPU's memory; null when the store has it elsewhere.
  std::byte* in_memory(const lanes::OutsidePlace& place) const;
  // As OutsideStore says it; false for a tier without one.
  bool may_stall(lanes::Tier tier) const;

  // Copies `size` bytes of the pool there; their checksum. Errors: the store's; internal when there
  // is no such place.
  Result<uint64_t> save(memory::PoolAccess& pool, const std::byte* image, Bytes size,
                        const lanes::OutsidePlace& to, const GoesOn& goes_on);
  // The beginning of an image, which is in the pool: at its place in the image already, or in a
  // range beside it.
  struct Prefix {
    const std::byte* data = nullptr;
    Bytes size;
  };
  // Copies them back, what is behind `prefix` alone by the link. Nothing is under way when it
  // returns. `started` may be empty. Requires, with a prefix and a place that is not in memory: the
  // CPU reaches the pool.
  Status load(memory::PoolAccess& pool, std::byte* image, Bytes size,
              const lanes::OutsidePlace& from, uint64_t checksum, const GoesOn& goes_on,
              const Prefix& prefix, const Started& started = {});

 private:
  OutsideStore* store(lanes::Tier tier) const;
  // Whether the range is inside what there is.
  Status check(const lanes::OutsidePlace& place, Bytes size) const;
  static Status move_prefix(memory::PoolAccess& pool, std::byte* image, const Prefix& prefix,
                            const GoesOn& goes_on, const Started& started);

  std::array<std::unique_ptr<OutsideStore>, lanes::kTierCount> stores_;  // of none: null
};

}  // namespace laneway::pipeline
