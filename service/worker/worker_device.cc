// The worker's half that meets the end of its device. In the user's process everything on it ends,
// and says why. A worker process leaves: its context is of no further use, its successor has
// another one, and goes on with what the journal says.
#include <utility>

#include "base/log.h"
#include "service/worker/worker.h"

namespace laneway::service {

Status Worker::device_status() {
  MutexLock lock(mutex_);
  return device_error_ ? Status(*device_error_) : Status();
}

Status Worker::access_now(WorkerJob& job, Work& work) {
  Status status = work.access()(job.places(backend_.pool_access()));
  // What torch's side knows of the bytes there holds no longer, also when only some were written.
  if (work.writes_state() && job.image != nullptr) job.torch->bind_image(job.image);
  if (status || status.error().code != ErrorCode::device_lost) return status;
  return device_failed(status.error(), job, "");
}

Error Worker::device_failed(const Error& what, const WorkerJob& job, const std::string& graph) {
  const std::string where = graph.empty()
                                ? "while the state of job '" + job.name + "' was read or written"
                                : "while job '" + job.name + "' ran graph '" + graph + "' on it";
  const std::string name = backend_.device().capabilities().name;
  const std::string told = "device '" + name + "' failed " + where + ": " + what.message;
  Cancelled cancelled;
  {
    MutexLock lock(mutex_);
    if (device_error_) return *device_error_;
    log_error(told);
    device_error_ = Error{ErrorCode::device_lost, told};
    if (journal_ != nullptr) {
      leave_to_successor(told, job);
      return *device_error_;
    }
    device_error_->message += "; every job of this service ends: open another one in a new process";
    for (const auto& [id, one] : jobs_) {
      if (!one->end_reason) one->end_reason = *device_error_;
      one->closing = true;
      for (auto& work : one->queue) cancelled.push_back(std::move(work));
      one->queue.clear();
      lost_jobs_.push_back(one);
      one->changed.notify_all();
    }
  }
  Error reason = device_status().error();
  for (const auto& work : cancelled) work->complete(reason);
  return reason;
}

void Worker::leave_to_successor(const std::string& told, const WorkerJob& reporter) {
  std::vector<JobHandle> suspects;
  for (const auto& [id, job] : jobs_) {
    const bool at_work = job->running && job->phase == WorkerJob::Phase::placed;
    if (at_work || job.get() == &reporter) suspects.push_back(job);
  }
  const bool alone = suspects.size() == 1;
  std::vector<std::pair<JobId, Error>> ended;
  for (const JobHandle& job : suspects) {
    if (job->journal) job->journal->suspect(told, alone);
    if (!alone) continue;
    ended.emplace_back(job->id, *device_error_);
    job->end_reason = *device_error_;
    job->close_links();
  }
  events_.device_lost(ended);
}

void Worker::tell_of_lost_jobs() {
  std::vector<JobHandle> lost;
  {
    MutexLock lock(mutex_);
    lost.swap(lost_jobs_);
    Cancelled none;
    for (const JobHandle& job : lost) stop_job(*job, none);
  }
  for (const JobHandle& job : lost) events_.post(lanes::JobEnded{.job = job->id});
}

}  // namespace laneway::service
