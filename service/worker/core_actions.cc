#include "service/worker/core_actions.h"

#include <algorithm>
#include <utility>

#include "base/fault_point.h"
#include "lanes/reason.h"

namespace laneway::service {

void CoreActions::carry_out(const std::vector<lanes::Action>& actions) {
  for (const lanes::Action& action : actions) {
    std::visit([this](const auto& kind) { perform(kind); }, action);
  }
  lanes_.join_retired();
}

void CoreActions::perform(const lanes::AdmitJob& action) {
  const BookkeepingLock lock(context_.mutex);
  if (const JobHandle job = jobs_.get(action.job)) {
    job->reason = {};
    job->admitted = action.lane;
  }
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
      watcher_.unwatch(*job);
      if (!job->running) job->close_links();
    } else {
      while (job->running) context_.mutex.wait(job->changed);
      jobs_.end(*job, std::move(reason));
      gone = job;
      why = job->end_reason;
    }
  }
  for (const auto& work : refused) work->complete(error);
  if (gone != nullptr) context_.events.job_gone(gone->id, why);
}

void CoreActions::perform(const lanes::PlaceImage& action) {
  JobHandle job;
  LaneId admitted;
  {
    const BookkeepingLock lock(context_.mutex);
    job = jobs_.get(action.job);
    if (job == nullptr) return;  // closed meanwhile: the core hears of it next
    while (job->running) context_.mutex.wait(job->changed);
    if (job->phase != WorkerJob::Phase::waiting) return;
    job->running = true;
    admitted = job->admitted;
    job->image_offset = action.offset;
    job->image_size = action.size;
  }
  if (job->journal) job->journal->placing(admitted, action.offset, action.size);
  std::byte* const image = context_.pool + action.offset.count();
  // Every byte of the image is written, so nothing of its former owner is left.
  const Status written = job->initial.write_to(context_.backend.pool_access(), image, action.size,
                                               job->torch->layout());
  if (!written) return drop_unplaced(job, written.error());
  fault_point("worker.image_written");
  if (job->journal) job->journal->placed();
  fault_point("worker.image_placed");
  job->torch->bind_image(image);
  {
    const BookkeepingLock lock(context_.mutex);
    job->initial = InitialImage();
    job->image = image;
    job->phase = WorkerJob::Phase::placed;
    job->running = false;
    job->changed.notify_all();
  }
  context_.events.post(lanes::ImagePlaced{.job = action.job});
}

void CoreActions::drop_unplaced(const JobHandle& job, const Error& why) {
  Error reason = why;
  if (why.code == ErrorCode::device_lost) reason = device_.failed(why, *job, "");
  {
    const BookkeepingLock lock(context_.mutex);
    if (!job->end_reason) job->end_reason = reason;
    job->running = false;
    job->changed.notify_all();
  }
  jobs_.begin_close(job, reason);
  device_.tell_of_lost_jobs();
}

void CoreActions::perform(const lanes::DropImage& action) {
  WorkerJobs::Cancelled dropped;
  JobHandle job;
  Error reason;
  std::optional<Error> why;
  {
    const BookkeepingLock lock(context_.mutex);
    job = jobs_.get(action.job);
    if (job == nullptr) return;
    while (job->running) context_.mutex.wait(job->changed);
    dropped.swap(job->queue);
    reason = job->end_reason.value_or(
        Error{ErrorCode::cancelled, "job '" + job->name + "' was ended before this iteration ran"});
    jobs_.end(*job, reason);
    why = job->end_reason;
  }
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

}  // namespace laneway::service
