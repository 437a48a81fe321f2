// WorkerJobs: the jobs of a worker that are not over, and how a job comes to its end: it stops (no
// further work is taken), what runs of it ends, the core gives its memory back, and it ends.
//
// Thread-safe: guarded by the worker's mutex.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/jobs/link_watcher.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/run/work.h"

namespace laneway::service {

class WorkerJobs {
 public:
  // Work that was queued and will not run. It must be completed with the mutex not held.
  using Cancelled = std::deque<std::shared_ptr<Work>>;

  // Both must outlive the jobs.
  WorkerJobs(WorkerContext& context, LinkWatcher& watcher) : context_(context), watcher_(watcher) {}

  // Null once close_all began.
  JobHandle add(NewJob job);
  // Null when the job is over.
  JobHandle find(JobId id);
  // Why a job is over that ended lately; nothing when it is not, or that is not known any more.
  std::optional<Error> why_over(JobId id);
  // find, and all jobs, for callers that hold the worker's mutex.
  JobHandle get(JobId id) const LW_REQUIRES(kBookkeeping);
  const std::map<JobId, JobHandle>& all() const LW_REQUIRES(kBookkeeping) { return jobs_; }

  // Jobs of several users have been here, or may have been: regions are cleared between them.
  bool many_users() const LW_REQUIRES(kBookkeeping) { return many_users_; }
  void users_are_unknown() LW_REQUIRES(kBookkeeping) { many_users_ = true; }
  // What is replayed runs to its end, so a job that shares its lane does it only when asked to.
  bool may_replay(const WorkerJob& job) const LW_REQUIRES(kBookkeeping);

  // The job cannot go on: the reason is logged, and its links are told when nothing runs. The
  // caller must post JobEnded, or report the job as over.
  void fail(WorkerJob& job, Error reason) LW_REQUIRES(kBookkeeping);
  // Nothing further of the job runs; one that has no memory yet ends at once. Releases the mutex
  // while a short thing holds such a job. Returns whether the caller must post JobEnded.
  bool stop(WorkerJob& job, Cancelled& cancelled) LW_REQUIRES(kBookkeeping);
  // Its memory is given back: it is not known any more, and `job` may be gone afterwards.
  // Requires: nothing of it runs.
  void end(WorkerJob& job, Error reason) LW_REQUIRES(kBookkeeping);

  // The contracts are those of Worker::close_job and Worker::begin_close; close_all closes all
  // jobs.
  void close(const JobHandle& job);
  void begin_close(const JobHandle& job, const Error& reason);
  void close_all();

 private:
  WorkerContext& context_;
  LinkWatcher& watcher_;
  std::map<JobId, JobHandle> jobs_ LW_GUARDED_BY(kBookkeeping);
  // Of the last ones that ended, for requests that were under way then.
  std::deque<std::pair<JobId, Error>> over_ LW_GUARDED_BY(kBookkeeping);
  bool closing_ LW_GUARDED_BY(kBookkeeping) = false;  // close_all began: no new jobs
  bool many_users_ LW_GUARDED_BY(kBookkeeping) = false;
  std::optional<uint32_t> user_ LW_GUARDED_BY(kBookkeeping);  // of the last job
};

}  // namespace laneway::service
