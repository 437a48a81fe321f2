// SuspectTrials: jobs that were at work on a device when it failed are tried again one at a time,
// while no other job is at work, so that the one which breaks the device again is alone then. A job
// is a suspect while WorkerJob::suspected is not 0.
//
// Thread-safe: guarded by the worker's mutex.
#pragma once

#include "service/worker/common/bookkeeping.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/lanes/worker_lanes.h"

namespace laneway::service {

class SuspectTrials {
 public:
  // The lanes must outlive the trials.
  explicit SuspectTrials(WorkerLanes& lanes) : lanes_(lanes) {}

  // Whether the lane may begin the next work of that job, which has its turn: no other job is on
  // trial, and a suspect begins only while every other lane is idle.
  bool may_begin(const WorkerLane& lane, const WorkerJob& job) const LW_REQUIRES(kBookkeeping);
  // The suspect's turn is open in an idle lane. With work that may begin it is next, unless another
  // one is on trial: nothing else begins before it was at work. Without such work its trial ends.
  void seek(const WorkerJob& suspect) LW_REQUIRES(kBookkeeping);
  // The job's trial is over, if it is on trial.
  void end(const WorkerJob& job) LW_REQUIRES(kBookkeeping);
  // Nothing of the job is under way any more: its trial is over, and another one may be due.
  void work_ended(const WorkerJob& job) LW_REQUIRES(kBookkeeping);

 private:
  WorkerLanes& lanes_;
  const WorkerJob* tried_ LW_GUARDED_BY(kBookkeeping) = nullptr;
};

}  // namespace laneway::service
