#include "service/worker/jobs/worker_jobs.h"

#include <algorithm>

#include "base/log.h"
#include "lanes/state/event.h"
#include "service/worker/jobs/job_lane.h"

namespace laneway::service {
namespace {

constexpr size_t kRemembered = 64;  // jobs that are over

}  // namespace

JobHandle WorkerJobs::add(NewJob from) {
  auto job = std::make_shared<WorkerJob>(std::move(from));
  const BookkeepingLock lock(context_.mutex);
  if (closing_) return nullptr;
  many_users_ = many_users_ || (user_ && *user_ != job->user);
  user_ = job->user;
  jobs_[job->id] = job;
  return job;
}

JobHandle WorkerJobs::find(JobId id) {
  const BookkeepingLock lock(context_.mutex);
  return get(id);
}

std::optional<Error> WorkerJobs::why_over(JobId id) {
  const BookkeepingLock lock(context_.mutex);
  const auto found = std::find_if(over_.begin(), over_.end(),
                                  [id](const auto& entry) { return entry.first == id; });
  return found == over_.end() ? std::nullopt : std::optional(found->second);
}

JobHandle WorkerJobs::get(JobId id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second;
}

bool WorkerJobs::may_replay(const WorkerJob& job) const {
  const Replay replay = job.offer.options.replay;
  if (replay != Replay::automatic) return replay == Replay::on;
  return std::none_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) LW_REQUIRES(kBookkeeping) {
    const WorkerJob& other = *entry.second;
    return &other != &job && other.admitted == job.admitted &&
           other.phase == WorkerJob::Phase::placed;
  });
}

void WorkerJobs::fail(WorkerJob& job, Error reason) {
  log_warning(reason.message);
  if (!job.end_reason) job.end_reason = std::move(reason);
  job.closing = true;
  if (job.lane != nullptr) job.lane->give_up_paused();
  watcher_.unwatch(job);
  if (!job.running) job.close_links();
}

bool WorkerJobs::stop(WorkerJob& job, Cancelled& cancelled) {
  cancelled.swap(job.queue);
  const bool announce = !job.closing && job.phase != WorkerJob::Phase::ended;
  job.closing = true;
  watcher_.unwatch(job);
  if (job.lane != nullptr) {
    job.lane->give_up_paused();
    job.lane->retire_soon();
  }
  if (!job.running) job.close_links();
  while (job.phase == WorkerJob::Phase::waiting && job.running) context_.mutex.wait(job.changed);
  if (job.phase == WorkerJob::Phase::waiting) end(job, job.over());
  return announce;
}

void WorkerJobs::end(WorkerJob& job, Error reason) {
  if (!job.end_reason && !job.closing) job.end_reason = std::move(reason);
  job.closing = true;
  job.phase = WorkerJob::Phase::ended;
  job.image = nullptr;
  watcher_.unwatch(job);
  job.close_links();
  for (const auto& link : job.links) watcher_.forget(*link);
  if (job.journal) job.journal->close();
  job.changed.notify_all();
  over_.emplace_back(job.id, job.over());
  if (over_.size() > kRemembered) over_.pop_front();
  jobs_.erase(job.id);
}

void WorkerJobs::close(const JobHandle& job) {
  begin_close(
      job, {ErrorCode::cancelled, "job '" + job->name + "' was closed before this iteration ran"});
  const BookkeepingLock lock(context_.mutex);
  while (job->phase != WorkerJob::Phase::ended) context_.mutex.wait(job->changed);
}

void WorkerJobs::begin_close(const JobHandle& job, const Error& reason) {
  Cancelled cancelled;
  bool announce = false;
  bool gone = false;
  std::optional<Error> why;
  {
    const BookkeepingLock lock(context_.mutex);
    const bool was_over = job->phase == WorkerJob::Phase::ended;
    if (!job->close_reason) job->close_reason = reason;
    announce = stop(*job, cancelled);
    gone = !was_over && job->phase == WorkerJob::Phase::ended;
    why = job->end_reason;
  }
  for (const auto& work : cancelled) work->complete(reason);
  if (announce) context_.events.post(lanes::JobEnded{.job = job->id});
  if (gone) context_.events.job_gone(job->id, why);
}

void WorkerJobs::close_all() {
  std::vector<JobHandle> jobs;
  {
    const BookkeepingLock lock(context_.mutex);
    closing_ = true;
    for (const auto& [id, job] : jobs_) jobs.push_back(job);
  }
  for (const JobHandle& job : jobs) close(job);
}

}  // namespace laneway::service
