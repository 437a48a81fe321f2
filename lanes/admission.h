// Admission: which waiting job gets in, and where. The policy says who and where; its answer is
// held against the ledger, the free list and the number of lanes, and carried out completely or not
// at all. Part of the core; not thread-safe.
#pragma once

#include "lanes/checked_policy.h"
#include "lanes/core_state.h"
#include "lanes/region_control.h"
#include "lanes/turn_control.h"

namespace laneway::lanes {

class Admission {
 public:
  // All must outlive it.
  Admission(CoreState& core, CheckedPolicy& policy, TurnControl& turns, RegionControl& regions)
      : core_(core), policy_(policy), turns_(turns), regions_(regions) {}

  // Admits jobs as long as the policy names one and there is room.
  void admit_waiting();
  // Tells every waiting job whose position or reason changed.
  void tell_queue();

 private:
  // ReasonCode::none: the job is in.
  ReasonCode try_admit(Job& job, const policies::AdmitDecision& decision);
  ReasonCode admit_to_new_lane(Job& job, LaneId lane);
  ReasonCode admit_to_lane(Job& job, Lane& lane);
  // Preferred: a lane whose region is large enough, the one with the fewest jobs; then one that can
  // grow now; then one that could grow between two turns (its turn is recalled and the job waits).
  ReasonCode admit_to_some_lane(Job& job);
  // None when all are open.
  LaneId closed_lane() const;
  void enter_lane(Job& job, Lane& lane);

  CoreState& core_;
  CheckedPolicy& policy_;
  TurnControl& turns_;
  RegionControl& regions_;
};

}  // namespace laneway::lanes
