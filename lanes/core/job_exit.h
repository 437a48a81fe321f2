// JobExit: takes jobs out of the core: at once, or when the job's open turn has ended. Part of the
// core; not thread-safe.
#pragma once

#include "lanes/state/checked_policy.h"
#include "lanes/state/core_state.h"
#include "lanes/turns/turn_control.h"

namespace laneway::lanes {

class JobExit {
 public:
  // All arguments must outlive the object.
  JobExit(CoreState& core, CheckedPolicy& policy, TurnControl& turns)
      : core_(core), policy_(policy), turns_(turns) {}

  // Ends the job in this state: at once (`job` is then destroyed), or when its open turn is over.
  void end_job(Job& job, JobState end_state);
  // Removes the job from all records, the policy's too; `job` is destroyed. Requires: no turn of
  // the job is open.
  void forget_job(Job& job, JobState end_state);
  // Fails a job that is larger than the pool, with the arithmetic. Ends it as end_job does.
  void refuse_for_good(Job& job);
  // The same for another reason.
  void refuse(Job& job, const Reason& reason);

 private:
  CoreState& core_;
  CheckedPolicy& policy_;
  TurnControl& turns_;
};

}  // namespace laneway::lanes
