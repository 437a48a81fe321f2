// The worker's half that ends jobs, and itself.
#include <utility>

#include "service/worker/worker.h"

namespace laneway::service {

bool Worker::stop_job(WorkerJob& job, Cancelled& cancelled) {
  cancelled.swap(job.queue);
  const bool announce = !job.closing && job.phase != WorkerJob::Phase::ended;
  job.closing = true;
  unwatch_links(job);
  if (job.lane != nullptr) job.lane->retire_soon();
  if (!job.running) job.close_links();
  while (job.phase == WorkerJob::Phase::waiting && job.running) job.changed.wait(mutex_);
  if (job.phase == WorkerJob::Phase::waiting) end_job(job, job.over());
  return announce;
}

void Worker::close_job(const JobHandle& job) {
  begin_close(
      job, {ErrorCode::cancelled, "job '" + job->name + "' was closed before this iteration ran"});
  MutexLock lock(mutex_);
  while (job->phase != WorkerJob::Phase::ended) job->changed.wait(mutex_);
}

void Worker::begin_close(const JobHandle& job, const Error& reason) {
  Cancelled cancelled;
  bool announce = false;
  bool gone = false;
  std::optional<Error> why;
  {
    MutexLock lock(mutex_);
    const bool was_over = job->phase == WorkerJob::Phase::ended;
    if (!job->close_reason) job->close_reason = reason;
    announce = stop_job(*job, cancelled);
    gone = !was_over && job->phase == WorkerJob::Phase::ended;
    why = job->end_reason;
  }
  for (const auto& work : cancelled) work->complete(reason);
  if (announce) events_.post(lanes::JobEnded{.job = job->id});
  if (gone) events_.job_gone(job->id, why);
}

void Worker::close_all() {
  std::vector<JobHandle> jobs;
  {
    MutexLock lock(mutex_);
    closing_ = true;
    for (const auto& [id, job] : jobs_) jobs.push_back(job);
  }
  for (const JobHandle& job : jobs) close_job(job);
  {
    MutexLock lock(mutex_);
    closed_ = true;
    for (auto& [id, lane] : lanes_) {
      lane->stop();
      retired_.push_back(std::move(lane));
    }
    lanes_.clear();
    watcher_stops_ = true;
    if (watcher_poll_ != nullptr) watcher_poll_->wake();
  }
  join_retired();
  if (watcher_.joinable()) watcher_.join();
}

void Worker::end_job(WorkerJob& job, Error reason) {
  if (!job.end_reason && !job.closing) job.end_reason = std::move(reason);
  job.closing = true;
  job.phase = WorkerJob::Phase::ended;
  job.image = nullptr;
  unwatch_links(job);
  job.close_links();
  for (const auto& link : job.links) link_jobs_.erase(link->key);
  if (job.journal) job.journal->close();
  job.changed.notify_all();
  jobs_.erase(job.id);  // `job` may be gone afterwards
}

}  // namespace laneway::service
