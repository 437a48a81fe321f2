#include "service/worker/core_actions.h"

#include <algorithm>
#include <utility>

#include "base/fault_point.h"
#include "base/log.h"
#include "lanes/state/reason.h"
#include "service/worker/jobs/job_lane.h"

namespace laneway::service {

void CoreActions::carry_out(const std::vector<lanes::Action>& actions) {
  for (const lanes::Action& action : actions) {
    std::visit([this](const auto& kind) { perform(kind); }, action);
  }
}

void CoreActions::perform(const lanes::AdmitJob& action) {
  const BookkeepingLock lock(context_.mutex);
  if (const JobHandle job = jobs_.get(action.job)) {
    job->reason = {};
    job->admitted = action.lane;
  }
}

void CoreActions::perform(const lanes::ChangeLane& action) {
  {
    const BookkeepingLock lock(context_.mutex);
    const JobHandle job = jobs_.get(action.job);
    // It may have left the pool, or ended, and the core has not heard of it.
    if (job == nullptr || !job->admitted.valid()) return;
    job->admitted = action.lane;
    if (job->journal) job->journal->change_lane(action.lane);
  }
  fault_point("worker.lane_changed");
}

void CoreActions::perform(const lanes::QueueJob& action) {
  const BookkeepingLock lock(context_.mutex);
  if (const JobHandle job = jobs_.get(action.job)) job->reason = action.reason;
}

void CoreActions::perform(const lanes::RefuseJob& action) {
  const Error error{ErrorCode::out_of_memory, lanes::reason_text(action.reason)};
  WorkerJobs::Cancelled refused;
  std::optional<Error> why;
  JobHandle gone;
  {
    const BookkeepingLock lock(context_.mutex);
    const JobHandle job = jobs_.get(action.job);
    if (job == nullptr) return;
    job->reason = action.reason;
    refused.swap(job->queue);
    Error reason = action.reason.code == lanes::ReasonCode::larger_than_pool
                       ? error
                       : Error{ErrorCode::refused, error.message};
    if (job->phase == WorkerJob::Phase::placed) {
      // Something of it may be running: DropImage comes when that is over.
      if (!job->end_reason) job->end_reason = std::move(reason);
      job->closing = true;
      if (job->lane != nullptr) job->lane->give_up_paused();
      watcher_.unwatch(*job);
      if (!job->running) job->close_links();
    } else {
      if (!job->closing && !job->end_reason) job->end_reason = std::move(reason);
      job->closing = true;  // a copy of its image stops
      while (job->running) context_.mutex.wait(job->changed);
      jobs_.end(*job, error);
      gone = job;
      why = job->end_reason;
    }
  }
  for (const auto& work : refused) work->complete(error);
  if (gone != nullptr) context_.events.job_gone(gone->id, why);
}

void CoreActions::perform(const lanes::RefuseWork& action) {
  const Error error{ErrorCode::out_of_memory, lanes::reason_text(action.reason)};
  std::shared_ptr<Work> work;
  WorkerJobs::Cancelled all;
  {
    const BookkeepingLock lock(context_.mutex);
    const JobHandle job = jobs_.get(action.job);
    if (job == nullptr) return;
    if (action.reason.code == lanes::ReasonCode::no_way_back) {
      all.swap(job->queue);
      job->changed.notify_all();  // the queue has room
    }
    const auto found = std::find(job->queue.begin(), job->queue.end(), job->outgrew.lock());
    // Else it was cancelled meanwhile: what is behind it may fit.
    if (found != job->queue.end()) {
      work = std::move(*found);
      job->queue.erase(found);
      job->changed.notify_all();
    }
  }
  if (work != nullptr) work->complete(error);
  for (const auto& each : all) each->complete(error);
}

void CoreActions::perform(const lanes::PlaceImage& action) { copies_.place(action); }

void CoreActions::perform(const lanes::DropImage& action) {
  WorkerJobs::Cancelled dropped;
  JobHandle job;
  Error reason;
  std::optional<Error> why;
  {
    const BookkeepingLock lock(context_.mutex);
    job = jobs_.get(action.job);
    if (job == nullptr) {  // it was away, and ended at once
      context_.kept_plans.drop_all(action.job);
      return;
    }
    while (job->running || job->is_arriving()) context_.mutex.wait(job->changed);
    dropped.swap(job->queue);
    reason = job->end_reason.value_or(
        Error{ErrorCode::cancelled, "job '" + job->name + "' was ended before this iteration ran"});
    jobs_.end(*job, reason);
    why = job->end_reason;
  }
  fault_point("worker.job_ended");
  context_.kept_plans.drop_all(job->id);
  for (const auto& work : dropped) work->complete(reason);
  context_.events.job_gone(job->id, why);
}

void CoreActions::perform(const lanes::OpenRegion& action) { lanes_.open(action); }
void CoreActions::perform(const lanes::ResizeRegion& action) { lanes_.resize(action); }
void CoreActions::perform(const lanes::CloseRegion& action) { lanes_.close(action); }

void CoreActions::perform(const lanes::GrantTurn& action) {
  const BookkeepingLock lock(context_.mutex);
  // A job that its client closed a moment ago: the turn is given back when the core recalls it.
  lanes_.grant(action.turn, jobs_.get(action.turn.job));
}

void CoreActions::perform(const lanes::RecallTurn& action) {
  lanes::TurnEnded ended;
  if (lanes_.recall(action, ended)) context_.events.post(ended);
}

void CoreActions::perform(const lanes::KeepLearnt& action) {
  const BookkeepingLock lock(context_.mutex);
  if (const JobHandle job = jobs_.get(action.job)) job->learnt = action.learnt;
}

void CoreActions::stop() {
  const MutexLock lock(pool_mutex_);
  stopped_ = true;
  pool_return_.reset();
}

void CoreActions::perform(const lanes::ResizePool& action) {
  const MutexLock lock(pool_mutex_);
  if (stopped_) return;  // the pool's memory may be gone
  const Bytes before = std::exchange(pool_size_, action.capacity);
  if (action.capacity >= before) {
    // What comes behind this action may be written at once.
    if (pool_return_) pool_return_->stop();
    return;
  }
  if (!pool_return_) pool_return_.emplace(context_);
  pool_return_->give_back(action.capacity, before - action.capacity);
}

}  // namespace laneway::service
