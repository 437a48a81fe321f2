// OutsideMap: the tiers outside of the pool as the core sees them: per tier a ledger (may these
// bytes be claimed?) and a free list (where do they lie?), always changed together. A job has at
// most one copy outside, and at most one home: a range that is its own until it ends, so that there
// is always a place to which it can leave (exchange.h). Its copy lies there or elsewhere. Every
// change either happens completely or not at all. Deterministic, not thread-safe.
//
// Invariant: per tier, sum of claims <= capacity, and every claim has exactly one range: a home, or
// a copy that does not lie at home.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/bytes.h"
#include "base/ids.h"
#include "lanes/pool/outside_place.h"
#include "memory/free_list.h"
#include "memory/ledger.h"

namespace laneway::lanes {

class OutsideMap {
 public:
  // A tier with a capacity of 0 does not exist: it has no place for anything.
  OutsideMap(Bytes store, Bytes spill, int64_t alignment);

  // Takes exactly the range at `place` for the job's copy, which has `size` bytes (rounded up to
  // the alignment). Returns false and changes nothing unless the tier exists, the range is aligned,
  // inside the tier and free (or the job's home), and the job has no copy yet. The numbers may come
  // from outside.
  bool claim(JobId job, Bytes size, const OutsidePlace& place);
  // A place for a copy of a job that has a home: in a tier that costs less, where one has so many
  // bytes in one piece; else its home. Tier::none: it has no home.
  OutsidePlace place_for(JobId job) const;
  // Whether there is a tier at all, and the one whose copies cost least; Tier::none: there is none.
  bool exists() const { return cheapest() != Tier::none; }
  Tier cheapest() const;
  // Of all tiers together; and the largest free piece of one of them.
  Bytes capacity() const;
  Bytes largest_free() const;
  // Frees the job's copy, but for its home. Returns where it lay; Tier::none: it had none.
  OutsidePlace drop(JobId job);

  // A home for `size` bytes, in the tier that costs most of those that have so many in one piece.
  // Returns false and changes nothing when none has. Requires: the job has neither home nor copy.
  bool give_home(JobId job, Bytes size);
  // Whether there would be one.
  bool has_a_home_for(Bytes size) const { return free_place(size).tier != Tier::none; }
  // The place of its copy is the job's home from now on, and the home that it had is free.
  // Requires: it has a copy.
  void make_copy_its_home(JobId job);
  // Frees it; a copy that lies there keeps its place. Returns whether there was one.
  bool drop_home(JobId job);
  // Tier::none: it has none.
  OutsidePlace home_of(JobId job) const;
  size_t homes() const { return homes_.size(); }
  // Whether the job has a copy that does not lie at home.
  bool is_out(JobId job) const;

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
  bool could_ever_hold(Bytes size) const;
  // In the tier that costs most; Tier::none: nowhere in one piece.
  OutsidePlace free_place(Bytes size) const;
  struct Copy {
    OutsidePlace place;
    ClaimId claim;  // none: the home's
  };
  struct Home {
    OutsidePlace place;
    Bytes size;
    ClaimId claim;
  };
  // Takes the range; an invalid claim: it is not free.
  ClaimId take(JobId job, Bytes bytes, const OutsidePlace& place);
  void free(const OutsidePlace& place, ClaimId claim);
  static Space space_of(Bytes capacity, int64_t alignment);
  const Space& space(Tier tier) const { return spaces_[tier]; }
  Space& space(Tier tier) { return spaces_[tier]; }

  int64_t alignment_;
  PerTier<Space> spaces_;  // of none: one without a byte
  // Never walked: their order differs from run to run.
  std::unordered_map<JobId, Copy> copies_;
  std::unordered_map<JobId, Home> homes_;
};

}  // namespace laneway::lanes
