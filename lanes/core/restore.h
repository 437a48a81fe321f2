// Restore: rebuilds a core from a worker's report: regions first, then jobs in the order of their
// ids, each completely or not at all. An entry that contradicts an earlier one (or the pool) is
// refused or closed by actions, and no part of it is kept. Open turns stay open, as turns without
// bound. Part of the core; not thread-safe.
#pragma once

#include "lanes/core/exchange.h"
#include "lanes/core/job_exit.h"
#include "lanes/core/region_control.h"
#include "lanes/state/checked_policy.h"
#include "lanes/state/core_state.h"
#include "lanes/state/report.h"
#include "lanes/turns/turn_control.h"

namespace laneway::lanes {

class Restore {
 public:
  // All arguments must outlive the object.
  Restore(CoreState& core, CheckedPolicy& policy, TurnControl& turns, JobExit& exit,
          RegionControl& regions, Exchange& exchange)
      : core_(core),
        policy_(policy),
        turns_(turns),
        exit_(exit),
        regions_(regions),
        exchange_(exchange) {}

  // A core that has jobs already ignores the report and counts it as ignored.
  void take_over(WorkerReport report);

 private:
  void restore_region(const ReportedRegion& reported);
  void restore_job(const ReportedJob& reported);
  void restore_admitted(Job job, const ReportedJob& reported);
  // Claims the place of the job's copy. Returns false and changes nothing when it contradicts the
  // tiers or an earlier copy; true when the job has no copy.
  bool restore_copy(const ReportedJob& reported);
  bool may_reopen(const ReportedJob& reported);
  // Refuses the job: the worker ends its turn and forgets it, and its bytes belong to no job.
  void reject(const Job& job, const ReportedJob& reported, ReasonCode code);
  // Gives the lane the size that its jobs need, and turns to those with work. Requires: all jobs
  // are restored.
  void settle_restored(Lane& lane);

  CoreState& core_;
  CheckedPolicy& policy_;
  TurnControl& turns_;
  JobExit& exit_;
  RegionControl& regions_;
  Exchange& exchange_;
};

}  // namespace laneway::lanes
