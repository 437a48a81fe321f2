// LanesApart: in a trial (lane_limit.h) a job may not begin beside as many as its level says: then
// its lane waits (lane_turns.h), and the turns of jobs that are counted end soon. Of two jobs of
// which one may interrupt the other neither waits for the other. Part of the core; not thread-safe.
#pragma once

#include "base/ids.h"
#include "lanes/state/checked_policy.h"
#include "lanes/state/core_state.h"
#include "lanes/turns/lane_turns.h"

namespace laneway::lanes {

class LanesApart {
 public:
  // Both must outlive the object.
  LanesApart(CoreState& core, CheckedPolicy& policy) : core_(core), policy_(policy) {}

  struct Answer {
    bool waits = false;
    LaneSet in_the_way = 0;  // lanes whose turns must end soon
  };
  // Whether the job may not begin in its lane now. If so the lane waits from now on; else it waits
  // no more.
  Answer ask(Lane& lane, Job& job);
  // Open turns of jobs that are counted.
  LaneSet open_counted() const;
  void leave(LaneId lane) { waiting_.leave(lane); }
  void clear() { waiting_.clear(); }
  const LaneTurns& waiting() const { return waiting_; }

 private:
  // The first of those that compute, or wait to, before it, if they are as many as the level says;
  // else none.
  JobId behind(const Lane& lane, const Job& job) const;
  // The job at the head of a lane that waits; null: it has no work any more.
  const policies::JobView* head_of(const LaneTurns::Waiting& waiting) const;
  const policies::JobView& running(const Lane& lane) const {
    return core_.job_of(lane.turn.job).view;
  }
  bool interrupts(const policies::JobView& one, const policies::JobView& other) const {
    return policy_.urgency(core_, one) != policy_.urgency(core_, other);
  }

  CoreState& core_;
  CheckedPolicy& policy_;
  LaneTurns waiting_;
};

}  // namespace laneway::lanes
