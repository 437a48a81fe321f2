// Checks of the invariants that hold between two events of the core. A broken one stops the
// process. They do their own arithmetic and change nothing.
#pragma once

#include "lanes/state/core_state.h"
#include "lanes/turns/turn_control.h"

namespace laneway::lanes {

// Checks the sum of claims, and that the lane's open turn, the lane's state, the view and the
// running job agree. Costs a few look-ups.
void check_lane(const CoreState& core, const TurnControl& turns, const Lane& lane);

// Checks that the job's lane, turn, copy and place among the ready are those that its state says.
// Costs a few look-ups.
void check_job(const CoreState& core, const Job& job);

// The same for all lanes and jobs, and:
//  - images, regions and the reserve add up to what the ledger counts, and do not overlap;
//  - every job stands in the view exactly once: waiting, or in its lane;
//  - held jobs are those that their idle lane's region is too small for, and are counted.
// Costs a walk over all jobs.
void check_all(const CoreState& core, const TurnControl& turns);

}  // namespace laneway::lanes
