// RoomTrial: a copy of the pool and its lanes, on which the core tries what would be if images left
// and regions slid, before it asks anybody for it. Nothing of it is visible outside. Part of the
// core; not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "lanes/core_state.h"
#include "policies/decision.h"

namespace laneway::lanes {

// Who wants room. The job and the decision must outlive it.
struct Wish {
  const Job& job;
  const policies::AdmitDecision* where = nullptr;  // null: it is held, and its lane must grow
  bool at_once = false;  // joining no lane that must grow when its turn has ended
};

// False: regions that slide certainly make no room for the wish, even if the images at `gone`
// (ascending) leave their places. Costs less than a trial, which alone says yes.
bool may_slide_for(const PoolMap& pool, const std::vector<Lane>& lanes, const Wish& wish,
                   std::span<const Bytes> gone = {});

class RoomTrial {
 public:
  // As the pool is now. `core` must outlive the object, and must not change meanwhile.
  explicit RoomTrial(const CoreState& core) : core_(core), pool_(core.pool), lanes_(core.lanes) {}

  // The same with another pool, in which beginnings of images that left are given up.
  RoomTrial(const CoreState& core, PoolMap pool)
      : core_(core), pool_(std::move(pool)), lanes_(core.lanes) {}

  // The images of these jobs are gone, but for as many first bytes as `keeps` says, and the regions
  // of their lanes as small as the others allow.
  using Keeps = std::map<JobId, Bytes>;
  void leave(const std::vector<JobId>& jobs, const Keeps& keeps = {});
  // The image has moved there; where it is then, or nothing, and nothing has changed.
  std::optional<Bytes> move(JobId job, PoolMap::MoveTo to);
  // Regions lie as high as they can, that of a held job's lane as low as it can: those of idle
  // lanes, or all.
  void slide(const Wish& wish, bool idle_ones_only);
  bool may_slide(const Wish& wish) const { return may_slide_for(pool_, lanes_, wish); }
  // Whether there is room for that now. If so the trial is of no use afterwards, else as before.
  bool fits(const Wish& wish);
  const PoolMap& pool() const { return pool_; }
  // Where the lane's region is in this trial.
  const Region& region_of(LaneId lane) const { return lanes_[lane.value() - 1].region; }

 private:
  bool finds_lane(const Wish& wish, PoolMap& pool) const;

  const CoreState& core_;
  PoolMap pool_;
  std::vector<Lane> lanes_;  // one whose region has no size was closed by the trial
};

}  // namespace laneway::lanes
