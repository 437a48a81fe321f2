// LaneTrials: lanes open and close as lane_limit.h says: tells the limit what turns measured, and
// makes the core follow it. Jobs that are no inferences stay in as many lanes as the limit allows:
// in a lane more they are neither admitted nor moved, and those of lanes too many go to the others,
// which have the largest regions, each between two of its turns. Part of the core; not thread-safe.
#pragma once

#include "lanes/state/checked_policy.h"
#include "lanes/state/core_state.h"
#include "lanes/state/iteration_sum.h"
#include "lanes/state/lane_limit.h"
#include "lanes/turns/turn_control.h"

namespace laneway::lanes {

class LaneTrials {
 public:
  // All of them must outlive the object.
  LaneTrials(CoreState& core, CheckedPolicy& policy, TurnControl& turns)
      : core_(core), policy_(policy), turns_(turns) {
    follow_policy();
  }

  // Another policy decides from now on: one that gives each job its lane leaves nothing to measure.
  void follow_policy();
  // A turn of the job has ended, in which so much was measured.
  void turn_ended(const Job& job, LaneId lane, const Stretch& stretch, Duration busy,
                  const IterationSum& measured);
  void worker_lost();
  void on_timer();
  TimePoint next_wakeup() const { return core_.lane_limit.next_wakeup(); }

 private:
  LaneLimit::Load load() const;
  // Something of the limit may have changed.
  void follow();

  CoreState& core_;
  CheckedPolicy& policy_;
  TurnControl& turns_;
  uint32_t level_ = 0;  // that the turns follow
  uint32_t lanes_ = 0;  // and the lanes
};

}  // namespace laneway::lanes
