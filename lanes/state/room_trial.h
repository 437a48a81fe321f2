// RoomTrial: what would be if images left and regions slid, tried on the core's pool before the
// core asks anybody for it, and taken back at the end. Nothing of it is visible outside. Part of
// the core; not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "lanes/state/core_state.h"
#include "policies/decision.h"

namespace laneway::lanes {

// Who wants room. The job and the decision must outlive it.
struct Wish {
  const Job& job;
  const policies::AdmitDecision* where = nullptr;  // null: it is held, and its lane must grow
  bool at_once = false;  // joining no lane that must grow when its turn has ended
  bool overdue() const { return where != nullptr && where->overdue; }
};

// False: regions that slide certainly make no room for the wish, even if the images of `gone`
// (ascending) leave their places. Costs less than a trial, which alone says yes.
bool may_slide_for(CoreState& core, const Wish& wish,
                   std::span<const memory::FreeList::Range> gone = {});

// Whether the bytes suffice when these leave, wherever they lie: cheap, and without it nothing else
// can help. `pool`: the core's, or as a trial left it.
bool frees_enough(CoreState& core, const Wish& wish, const PoolMap& pool,
                  std::span<const JobId> leaving);

class RoomTrial {
 public:
  // As the pool is now. While the object lives the core's pool is what was tried; nothing else of
  // the core may change, and no other trial begin but a nested one.
  explicit RoomTrial(CoreState& core);
  RoomTrial(const RoomTrial&) = delete;
  RoomTrial& operator=(const RoomTrial&) = delete;

  // A trial that begins as this one is now, and ends before this one is used again.
  RoomTrial nested() { return RoomTrial(core_, regions_); }

  // The beginnings of images that left are given up.
  void give_up(const std::vector<JobId>& prefixes);
  // The images of these jobs are gone, but for as many first bytes as `keeps` says, and the regions
  // of their lanes as small as the others allow.
  using Keeps = std::map<JobId, Bytes>;
  void leave(const std::vector<JobId>& jobs, const Keeps& keeps = {});
  // The image has moved there; where it is then, or nothing, and nothing has changed.
  std::optional<Bytes> move(JobId job, PoolMap::MoveTo to);
  // Regions lie as high as they can, that of a held job's lane as low as it can: those of idle
  // lanes, or all.
  void slide(const Wish& wish, bool idle_ones_only);
  // All of them, unless no free piece would be as long as the image then: returns false, and
  // nothing has changed.
  bool slide_for(const Wish& wish);
  bool may_slide(const Wish& wish) const;
  // Regions lie as low as they can: those of idle lanes, or all.
  void sink(bool idle_ones_only);
  // Whether there is room for that now. If so the trial is of no use afterwards, else as before.
  bool fits(const Wish& wish);
  const PoolMap& pool() const { return pool_; }
  // Where the lanes' regions are in this trial, in the order of CoreState::lanes; one without a
  // size is closed.
  const std::vector<Region>& regions() const { return regions_; }
  // The core's pool stays as it was tried; the core must make its lanes agree.
  void keep() { attempt_.keep(); }

 private:
  RoomTrial(CoreState& core, const std::vector<Region>& regions)
      : core_(core), pool_(core.pool), regions_(regions), attempt_(core.pool) {}
  bool finds_lane(const Wish& wish);
  bool slide(const Wish& wish, bool idle_ones_only, Bytes least);

  CoreState& core_;
  PoolMap& pool_;
  std::vector<Region> regions_;
  PoolAttempt attempt_;
};

}  // namespace laneway::lanes
