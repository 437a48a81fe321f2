// Restore: a core made anew from a worker's report. Regions first, then jobs in the order of their
// ids, each completely or not at all: what contradicts something that was taken in before it (or
// the pool) is refused or closed by actions, and nothing of it is kept. Turns that are open stay
// open, as turns without bound. Part of the core; not thread-safe.
#pragma once

#include "lanes/core_state.h"
#include "lanes/job_exit.h"
#include "lanes/region_control.h"
#include "lanes/report.h"
#include "lanes/turn_control.h"

namespace laneway::lanes {

class Restore {
 public:
  // All must outlive it.
  Restore(CoreState& core, TurnControl& turns, JobExit& exit, RegionControl& regions)
      : core_(core), turns_(turns), exit_(exit), regions_(regions) {}

  // Ignored, and counted as such, by a core that knows jobs already.
  void take_over(WorkerReport report);

 private:
  void restore_region(const ReportedRegion& reported);
  void restore_job(const ReportedJob& reported);
  void restore_admitted(Job job, const ReportedJob& reported);
  bool may_reopen(const ReportedJob& reported);
  // The job is not taken in: the worker ends its turn and forgets it, its bytes belong to no job.
  void reject(const Job& job, const ReportedJob& reported, ReasonCode code);
  // All jobs are known: the lane gets the size that they need, and turns to those with work.
  void settle_restored(Lane& lane);

  CoreState& core_;
  TurnControl& turns_;
  JobExit& exit_;
  RegionControl& regions_;
};

}  // namespace laneway::lanes
