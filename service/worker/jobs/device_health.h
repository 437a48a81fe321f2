// DeviceHealth: whether the worker's device has failed for good, and what follows. In the user's
// process every job on it ends, and says why. A worker process leaves: its context is of no further
// use, its successor has another one and goes on with what the journal says.
//
// Thread-safe: guarded by the worker's mutex.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/jobs/worker_jobs.h"
#include "service/worker/run/work.h"

namespace laneway::service {

class DeviceHealth {
 public:
  // Both must outlive it.
  DeviceHealth(WorkerContext& context, WorkerJobs& jobs) : context_(context), jobs_(jobs) {}

  // device_lost once the device failed: nothing runs on it any more.
  Status status();
  bool has_failed() const LW_REQUIRES(kBookkeeping) { return error_.has_value(); }

  // The device failed for good while the job ran that graph ("": its bytes were copied). All jobs
  // that cannot go on end; the result is the job's error. Only the first call counts. It is called
  // while flags are set, so the core is told later, by tell_of_lost_jobs, when none is.
  Error failed(const Error& what, WorkerJob& job, const std::string& graph);
  void tell_of_lost_jobs();
  // After an iteration of that graph failed with `what`: asks the device. The job's error when it
  // has failed for good, or nothing.
  std::optional<Error> error_behind(const Error& what, WorkerJob& job, const std::string& graph);

  // Does what the work does to the job's state; a device that is lost then has failed. Requires:
  // the caller has set WorkerJob::running.
  Status access_state(WorkerJob& job, Work& work);

 private:
  // With a journal: who is to blame is left to a successor, unless one job alone ran a graph.
  void leave_to_successor(WorkerJob& reporter, bool ran_graph) LW_REQUIRES(kBookkeeping);

  WorkerContext& context_;
  WorkerJobs& jobs_;
  std::optional<Error> error_ LW_GUARDED_BY(kBookkeeping);
  std::vector<JobHandle> lost_ LW_GUARDED_BY(kBookkeeping);  // the core is to be told of them
};

}  // namespace laneway::service
