// RoomTrial: a copy of the pool and its lanes, on which the core tries what would be if images left
// and regions slid, before it asks anybody for it. Nothing of it is visible outside. Part of the
// core; not thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "base/ids.h"
#include "lanes/core_state.h"
#include "policies/decision.h"

namespace laneway::lanes {

// Who wants room. The job and the decision must outlive it.
struct Wish {
  const Job& job;
  const policies::AdmitDecision* where = nullptr;  // null: it is held, and its lane must grow
};

class RoomTrial {
 public:
  // As the pool is now. `core` must outlive the object, and must not change meanwhile.
  explicit RoomTrial(const CoreState& core) : core_(core), pool_(core.pool), lanes_(core.lanes) {}

  // The images of these jobs are gone, and the regions of their lanes as small as the others allow.
  void leave(const std::vector<JobId>& jobs);
  // The image has moved there; where it is then, or nothing, and nothing has changed.
  std::optional<Bytes> move(JobId job, PoolMap::MoveTo to);
  // Regions lie as high as they can, that of a held job's lane as low as it can: those of idle
  // lanes, or all.
  void slide(const Wish& wish, bool idle_ones_only);
  // Whether there is room for that now. The trial is of no use afterwards.
  bool fits(const Wish& wish);
  const PoolMap& pool() const { return pool_; }
  // Where the lane's region is in this trial.
  const Region& region_of(LaneId lane) const { return lanes_[lane.value() - 1].region; }

 private:
  const CoreState& core_;
  PoolMap pool_;
  std::vector<Lane> lanes_;  // one whose region has no size was closed by the trial
};

}  // namespace laneway::lanes
