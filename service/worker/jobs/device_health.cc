#include "service/worker/jobs/device_health.h"

#include <utility>

#include "base/log.h"
#include "lanes/state/event.h"
#include "service/worker/jobs/job_lane.h"

namespace laneway::service {

Status DeviceHealth::status() {
  const BookkeepingLock lock(context_.mutex);
  return error_ ? Status(*error_) : Status();
}

Status DeviceHealth::access_state(WorkerJob& job, Work& work) {
  const pipeline::SlotPlaces places = [&] {
    const BookkeepingLock lock(context_.mutex);
    return job.places(context_.backend.pool_access(), context_.outside);
  }();
  Status status = work.access()(places);
  // What torch's side knows of the bytes holds no longer, also when only some were written.
  if (work.writes_state()) job.torch->state_written();
  if (status || status.error().code != ErrorCode::device_lost) return status;
  return failed(status.error(), job, "");
}

Error DeviceHealth::failed(const Error& what, WorkerJob& job, const std::string& graph) {
  const std::string where = graph.empty()
                                ? "while memory of job '" + job.name + "' was read or written"
                                : "while job '" + job.name + "' ran graph '" + graph + "' on it";
  const std::string name = context_.backend.device().capabilities().name;
  Error told{ErrorCode::device_lost, "device '" + name + "' failed " + where + ": " + what.message};
  WorkerJobs::Cancelled cancelled;
  {
    const BookkeepingLock lock(context_.mutex);
    if (error_) return *error_;
    log_error(told.message);
    error_ = told;
    if (context_.journal != nullptr) {
      leave_to_successor(job, !graph.empty());
      return told;
    }
    told.message += "; every job of this service ends: open another one in a new process";
    error_ = told;
    for (const auto& [id, one] : jobs_.all()) {
      if (!one->end_reason) one->end_reason = told;
      one->closing = true;
      if (one->lane != nullptr) one->lane->give_up_paused();
      for (auto& work : one->queue) cancelled.push_back(std::move(work));
      one->queue.clear();
      lost_.push_back(one);
      one->changed.notify_all();
    }
  }
  for (const auto& work : cancelled) work->complete(told);
  return told;
}

std::optional<Error> DeviceHealth::error_behind(const Error& what, WorkerJob& job,
                                                const std::string& graph) {
  if (const Status health = context_.backend.health(); !health) {
    return failed(health.error(), job, graph);
  }
  if (what.code != ErrorCode::device_lost) return std::nullopt;
  return failed(what, job, graph);
}

void DeviceHealth::leave_to_successor(WorkerJob& reporter, bool ran_graph) {
  // Copies break no device: who only met the failure while it copied is suspected when there is
  // nobody else, so that this has an end, and blamed when it meets another one.
  std::vector<WorkerJob*> suspects;
  for (const auto& [id, job] : jobs_.all()) {
    const bool at_work = job->lane != nullptr && job->lane->is_busy() && !job->lane->is_paused();
    if (job.get() == &reporter ? ran_graph : at_work) suspects.push_back(job.get());
  }
  if (suspects.empty()) suspects.push_back(&reporter);
  const bool alone = ran_graph && suspects.size() == 1;
  std::vector<std::pair<JobId, Error>> ended;
  for (WorkerJob* const job : suspects) {
    if (job->journal) job->journal->suspect(error_->message, alone);
    if (!alone) continue;
    ended.emplace_back(job->id, *error_);
    job->end_reason = *error_;
    job->close_links();
  }
  context_.events.device_lost(ended);
}

void DeviceHealth::tell_of_lost_jobs() {
  std::vector<JobHandle> lost;
  {
    const BookkeepingLock lock(context_.mutex);
    lost.swap(lost_);
    WorkerJobs::Cancelled none;
    for (const JobHandle& job : lost) jobs_.stop(*job, none);
  }
  for (const JobHandle& job : lost) context_.events.post(lanes::JobEnded{.job = job->id});
}

}  // namespace laneway::service
