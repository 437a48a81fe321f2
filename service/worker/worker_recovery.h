// WorkerRecovery: how a worker goes on where a predecessor died, and what it tells a core that
// does not know it.
//
// Thread-safe: jobs, links and lanes are guarded by the worker's mutex.
#pragma once

#include <vector>

#include "lanes/report.h"
#include "service/worker/bookkeeping.h"
#include "service/worker/link.h"
#include "service/worker/link_watcher.h"
#include "service/worker/worker_context.h"
#include "service/worker/worker_job.h"
#include "service/worker/worker_jobs.h"
#include "service/worker/worker_lanes.h"

namespace laneway::service {

class WorkerRecovery {
 public:
  // All of them must outlive the recovery.
  WorkerRecovery(WorkerContext& context, WorkerJobs& jobs, WorkerLanes& lanes, LinkWatcher& watcher)
      : context_(context), jobs_(jobs), lanes_(lanes), watcher_(watcher) {}

  // Nothing of a predecessor is in the pool: images that it placed are lost. Before recover.
  void pool_is_new() { pool_is_new_ = true; }
  // Opens the lanes, binds the images where they lie, and does what the journal says of each job.
  // Returns the jobs that it recovered: requests may wait in their links. Requires: all jobs,
  // graphs, links and segments are known again.
  std::vector<JobHandle> recover();
  // Everything that a new core must know. Requires: no actions are carried out meanwhile.
  lanes::WorkerReport report();

 private:
  void recover(WorkerJob& job) LW_REQUIRES(kBookkeeping);

  WorkerContext& context_;
  WorkerJobs& jobs_;
  WorkerLanes& lanes_;
  LinkWatcher& watcher_;
  bool pool_is_new_ = false;
};

// A link of a predecessor's that joins its job again: an answer that the predecessor wrote and did
// not count is counted, and bytes that it was writing over the state are to be written again.
void recover_link(WorkerJob& job, Link& link) LW_REQUIRES(kBookkeeping);

}  // namespace laneway::service
