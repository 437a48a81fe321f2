// JobExit: how a job leaves the core: at once, or when its open turn has ended. Part of the core;
// not thread-safe.
#pragma once

#include "lanes/core_state.h"
#include "lanes/turn_control.h"

namespace laneway::lanes {

class JobExit {
 public:
  // Both must outlive it.
  JobExit(CoreState& core, TurnControl& turns) : core_(core), turns_(turns) {}

  // The job ends in this state: at once (`job` is gone then), or when its open turn is over.
  void end_job(Job& job, JobState end_state);
  // Takes the job out of everything and forgets it; `job` is gone afterwards. Requires: no turn of
  // it is open.
  void forget_job(Job& job, JobState end_state);
  // Larger than the pool: the job fails, with the arithmetic. As end_job.
  void refuse_for_good(Job& job);

 private:
  CoreState& core_;
  TurnControl& turns_;
};

}  // namespace laneway::lanes
