// WorkerRecovery: how a worker goes on where a predecessor died, and what it tells a core that
// does not know it.
//
// Thread-safe: jobs, links and lanes are guarded by the worker's mutex.
#pragma once

#include <vector>

#include "lanes/state/report.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/jobs/link.h"
#include "service/worker/jobs/link_watcher.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/jobs/worker_jobs.h"
#include "service/worker/lanes/worker_lanes.h"

namespace laneway::service {

class WorkerRecovery {
 public:
  // All of them must outlive the recovery.
  WorkerRecovery(WorkerContext& context, WorkerJobs& jobs, WorkerLanes& lanes, LinkWatcher& watcher)
      : context_(context), jobs_(jobs), lanes_(lanes), watcher_(watcher) {}

  // Opens the lanes, binds the images where they lie, and does what the journal says of each job.
  // Returns the jobs that it recovered: requests may wait in their links. Requires: all jobs,
  // graphs, links and segments are known again.
  std::vector<JobHandle> recover();
  // Everything that a new core must know. Requires: no actions are carried out meanwhile.
  lanes::WorkerReport report();

 private:
  void restore_plans() LW_REQUIRES(kBookkeeping);
  void recover(WorkerJob& job) LW_REQUIRES(kBookkeeping);
  // What the journal says of its image; one in the pool is not there before bind_image.
  void find_image(WorkerJob& job) LW_REQUIRES(kBookkeeping);
  // Where the journal says that it lies.
  Status bind_image(WorkerJob& job) LW_REQUIRES(kBookkeeping);
  // What a request that died has written is undone, now or by the lane. The error ends the job.
  Status restore_state(WorkerJob& job) LW_REQUIRES(kBookkeeping);
  // A state write that died comes first, or is undone when nobody is there to write.
  void write_again(WorkerJob& job) LW_REQUIRES(kBookkeeping);
  // Pieces of the recovery memory whose job or lane is gone.
  void release_what_is_nobodys() LW_REQUIRES(kBookkeeping);

  WorkerContext& context_;
  WorkerJobs& jobs_;
  WorkerLanes& lanes_;
  LinkWatcher& watcher_;
};

}  // namespace laneway::service
