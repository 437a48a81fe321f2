// The worker's half that meets the end of its device. In the user's process everything on it ends,
// and says why. A worker process leaves: its context is of no further use, its successor has
// another one, and goes on with what the journal says.
#include <algorithm>
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
  // What torch's side knows of the bytes holds no longer, also when only some were written.
  if (work.writes_state()) job.torch->state_written();
  if (status || status.error().code != ErrorCode::device_lost) return status;
  return device_failed(status.error(), job, "");
}

Error Worker::device_failed(const Error& what, WorkerJob& job, const std::string& graph) {
  const std::string where = graph.empty()
                                ? "while memory of job '" + job.name + "' was read or written"
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
      leave_to_successor(told, job, !graph.empty());
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

void Worker::leave_to_successor(const std::string& told, WorkerJob& reporter, bool ran_graph) {
  // Copies break no device: who only met the failure while it copied is suspected when there is
  // nobody else, so that this has an end, and blamed when it meets another one.
  std::vector<WorkerJob*> suspects;
  for (const auto& [id, job] : jobs_) {
    const bool at_work = job->lane != nullptr && job->lane->busy_;
    if (job.get() == &reporter ? ran_graph : at_work) suspects.push_back(job.get());
  }
  if (suspects.empty()) suspects.push_back(&reporter);
  const bool alone = ran_graph && suspects.size() == 1;
  std::vector<std::pair<JobId, Error>> ended;
  for (WorkerJob* const job : suspects) {
    if (job->journal) job->journal->suspect(told, alone);
    if (!alone) continue;
    ended.emplace_back(job->id, *device_error_);
    job->end_reason = *device_error_;
    job->close_links();
  }
  events_.device_lost(ended);
}

bool Worker::may_begin(const WorkerLane& lane) const {
  const WorkerJob& job = *lane.job_;
  if (tried_ != nullptr && tried_ != &job) return false;
  if (job.suspected == 0) return true;
  return std::none_of(lanes_.begin(), lanes_.end(),
                      [&](const auto& entry) LW_REQUIRES(kBookkeeping) {
                        return entry.second.get() != &lane && entry.second->busy_;
                      });
}

void Worker::begin_trial(const WorkerJob& job) {
  if (tried_ != nullptr) return;
  tried_ = &job;
  for (auto& [id, lane] : lanes_) lane->retire_soon();
}

void Worker::end_trial(const WorkerJob& job) {
  if (tried_ == nullptr) return;
  if (tried_ == &job) tried_ = nullptr;
  for (auto& [id, lane] : lanes_) lane->work_arrived();
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
