// Admission: admits waiting jobs. The policy chooses the job and the lane; Admission checks the
// answer against the ledger, the free list and the number of lanes, and carries it out completely
// or not at all. Part of the core; not thread-safe.
#pragma once

#include "lanes/checked_policy.h"
#include "lanes/core_state.h"
#include "lanes/eviction.h"
#include "lanes/image_moves.h"
#include "lanes/region_control.h"
#include "lanes/turn_control.h"

namespace laneway::lanes {

class Admission {
 public:
  // All arguments must outlive the object.
  Admission(CoreState& core, CheckedPolicy& policy, TurnControl& turns, RegionControl& regions,
            ImageMoves& moves, Eviction& eviction)
      : core_(core),
        policy_(policy),
        turns_(turns),
        regions_(regions),
        moves_(moves),
        eviction_(eviction) {}

  // Admits jobs as long as the policy names one and there is room. Images move, or leave, for one
  // that finds none.
  void admit_waiting();
  // Emits QueueJob for every waiting job with another reason than it was told; costs nothing for
  // those about whom nothing changed.
  void tell_queue();

 private:
  // Returns ReasonCode::none when the job is admitted, else why not.
  ReasonCode try_admit(Job& job, const policies::AdmitDecision& decision);
  ReasonCode admit_to_new_lane(Job& job, LaneId lane);
  Room open_lane_beside(Job& job, Lane& lane, bool at_former_place);
  // The former place, if it is free, suits an image that comes back: what was recorded for its
  // addresses holds.
  Room place(Job& job, bool at_former_place);
  ReasonCode admit_to_lane(Job& job, Lane& lane);
  // Tries in this order: the lane with the fewest jobs among those with a region that is large
  // enough; a lane that can grow now; a lane that could grow between two turns (its turn is
  // recalled and the job waits).
  ReasonCode admit_to_some_lane(Job& job);
  // A lane that is closed; none when all are open.
  LaneId closed_lane() const;
  void enter_lane(Job& job, Lane& lane);

  CoreState& core_;
  CheckedPolicy& policy_;
  TurnControl& turns_;
  RegionControl& regions_;
  ImageMoves& moves_;
  Eviction& eviction_;
};

}  // namespace laneway::lanes
