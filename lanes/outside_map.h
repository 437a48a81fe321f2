// OutsideMap: the tiers outside of the pool as the core sees them: per tier a ledger (may these
// bytes be claimed?) and a free list (where do they lie?), always changed together. A job has at
// most one copy outside. Every change either happens completely or not at all. Deterministic, not
// thread-safe.
//
// Invariant: per tier, sum of claims <= capacity, and every claim has exactly one range.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/bytes.h"
#include "base/ids.h"
#include "lanes/outside_place.h"
#include "memory/free_list.h"
#include "memory/ledger.h"

namespace laneway::lanes {

class OutsideMap {
 public:
  // A tier with a capacity of 0 does not exist: it has no place for anything.
  OutsideMap(Bytes store, Bytes spill, int64_t alignment);

  // Takes exactly the range at `place` for the job's copy, which has `size` bytes (rounded up to
  // the alignment). Returns false and changes nothing unless the tier exists, the range is aligned,
  // inside the tier and free, and the job has no copy yet. The numbers may come from outside.
  bool claim(JobId job, Bytes size, const OutsidePlace& place);
  // A place for a copy of `size` bytes: in the store, else in the spill file; Tier::none when
  // neither has so many in one piece.
  OutsidePlace place_for(Bytes size) const;
  // Whether there is a tier at all.
  bool exists() const;
  // Whether place_for could answer if nothing else lay there.
  bool could_ever_hold(Bytes size) const;
  // Frees the job's copy. Returns where it lay; Tier::none: it had none.
  OutsidePlace drop(JobId job);
  // Where the job's copy lies; Tier::none: it has no copy.
  OutsidePlace place_of(JobId job) const;
  size_t copies() const { return copies_.size(); }

  // Requires: `tier` is not none.
  const memory::Ledger& ledger(Tier tier) const { return space(tier).ledger; }
  const memory::FreeList& ranges(Tier tier) const { return space(tier).ranges; }

 private:
  struct Space {
    memory::Ledger ledger;
    memory::FreeList ranges;
  };
  Bytes rounded(Bytes size) const;
  struct Copy {
    OutsidePlace place;
    ClaimId claim;
  };
  const Space& space(Tier tier) const { return tier == Tier::store ? store_ : spill_; }
  Space& space(Tier tier) { return tier == Tier::store ? store_ : spill_; }

  int64_t alignment_;
  Space store_;
  Space spill_;
  std::unordered_map<JobId, Copy> copies_;  // never walked: its order differs from run to run
};

}  // namespace laneway::lanes
