// The worker's half that carries out the core's actions, in their order, on the thread that drains
// the core's loop.
#include <algorithm>
#include <utility>

#include "base/fault_point.h"
#include "base/log.h"
#include "lanes/reason.h"
#include "service/worker/worker.h"

namespace laneway::service {

void Worker::carry_out(const std::vector<lanes::Action>& actions) {
  for (const lanes::Action& action : actions) {
    std::visit([this](const auto& kind) { perform(kind); }, action);
  }
  join_retired();
}

void Worker::perform(const lanes::AdmitJob& action) {
  MutexLock lock(mutex_);
  if (WorkerJob* job = find(action.job)) {
    job->reason = {};
    job->admitted = action.lane;
  }
}

void Worker::perform(const lanes::QueueJob& action) {
  MutexLock lock(mutex_);
  if (WorkerJob* job = find(action.job)) job->reason = action.reason;
}

void Worker::perform(const lanes::RefuseJob& action) {
  const Error error{ErrorCode::out_of_memory, lanes::reason_text(action.reason)};
  std::deque<std::shared_ptr<Work>> refused;
  std::optional<Error> why;
  JobHandle gone;
  {
    MutexLock lock(mutex_);
    const auto found = jobs_.find(action.job);
    if (found == jobs_.end()) return;
    const JobHandle job = found->second;
    job->reason = action.reason;
    refused.swap(job->queue);
    Error reason = action.reason.code == lanes::ReasonCode::larger_than_pool
                       ? error
                       : Error{ErrorCode::refused, error.message};
    if (job->phase == WorkerJob::Phase::placed) {
      // Something of it may be running: DropImage comes when that is over.
      if (!job->end_reason) job->end_reason = std::move(reason);
      job->closing = true;
      unwatch_links(*job);
      if (!job->running) job->close_links();
    } else {
      while (job->running) job->changed.wait(mutex_);
      end_job(*job, std::move(reason));
      gone = job;
      why = job->end_reason;
    }
  }
  for (const auto& work : refused) work->complete(error);
  if (gone != nullptr) events_.job_gone(gone->id, why);
}

void Worker::perform(const lanes::PlaceImage& action) {
  JobHandle job;
  LaneId admitted;
  {
    MutexLock lock(mutex_);
    const auto found = jobs_.find(action.job);
    if (found == jobs_.end()) return;  // closed meanwhile: the core hears of it next
    job = found->second;
    while (job->running) job->changed.wait(mutex_);
    if (job->phase != WorkerJob::Phase::waiting) return;
    job->running = true;
    admitted = job->admitted;
    job->image_offset = action.offset;
    job->image_size = action.size;
  }
  if (job->journal) job->journal->placing(admitted, action.offset, action.size);
  std::byte* const image = pool_ + action.offset.count();
  // Every byte of the image is written, so nothing of its former owner is left.
  const Status written =
      job->initial.write_to(backend_.pool_access(), image, action.size, job->torch->layout());
  if (!written) return drop_unplaced(job, written.error());
  fault_point("worker.image_written");
  if (job->journal) job->journal->placed();
  fault_point("worker.image_placed");
  job->torch->bind_image(image);
  {
    MutexLock lock(mutex_);
    job->initial = InitialImage();
    job->image = image;
    job->phase = WorkerJob::Phase::placed;
    job->running = false;
    job->changed.notify_all();
  }
  events_.post(lanes::ImagePlaced{.job = action.job});
}

void Worker::drop_unplaced(const JobHandle& job, const Error& why) {
  Error reason = why;
  if (why.code == ErrorCode::device_lost) reason = device_failed(why, *job, "");
  {
    MutexLock lock(mutex_);
    if (!job->end_reason) job->end_reason = reason;
    job->running = false;
    job->changed.notify_all();
  }
  begin_close(job, reason);
  tell_of_lost_jobs();
}

void Worker::perform(const lanes::DropImage& action) {
  std::deque<std::shared_ptr<Work>> dropped;
  JobHandle job;
  Error reason;
  std::optional<Error> why;
  {
    MutexLock lock(mutex_);
    const auto found = jobs_.find(action.job);
    if (found == jobs_.end()) return;
    job = found->second;
    while (job->running) job->changed.wait(mutex_);
    dropped.swap(job->queue);
    reason = job->end_reason.value_or(
        Error{ErrorCode::cancelled, "job '" + job->name + "' was ended before this iteration ran"});
    end_job(*job, reason);
    why = job->end_reason;
  }
  for (const auto& work : dropped) work->complete(reason);
  events_.job_gone(job->id, why);
}

void Worker::perform(const lanes::OpenRegion& action) {
  auto device = backend_.make_lane();
  if (!device) log_error("a lane cannot be had of the device: " + device.error().message);
  MutexLock lock(mutex_);
  if (closed_) return;
  auto& lane = lanes_[action.lane];
  LW_CHECK(lane == nullptr, "a lane is opened once");
  lane = std::make_unique<WorkerLane>(*this, action.lane, std::move(device));
  lane->set_region(action.region, pool_ + action.offset.count(), action.size);
  last_region_ = std::max(last_region_, action.region);
  if (journal_ != nullptr) {
    journal_->set_region({action.lane, action.region, action.offset, action.size});
  }
}

void Worker::perform(const lanes::ResizeRegion& action) {
  MutexLock lock(mutex_);
  WorkerLane* lane = lane_of_region(action.region);
  if (closed_) return;
  LW_CHECK(lane != nullptr, "a region that is resized is open");
  lane->set_region(action.region, pool_ + action.offset.count(), action.size);
  if (journal_ != nullptr) {
    journal_->set_region({lane->id(), action.region, action.offset, action.size});
  }
}

void Worker::perform(const lanes::CloseRegion& action) {
  MutexLock lock(mutex_);
  for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
    if (lane->second->region() != action.region) continue;
    if (journal_ != nullptr) journal_->close_region(lane->first);
    lane->second->stop();
    retired_.push_back(std::move(lane->second));
    lanes_.erase(lane);
    return;
  }
}

void Worker::perform(const lanes::GrantTurn& action) {
  MutexLock lock(mutex_);
  if (closed_) return;
  last_turn_ = std::max(last_turn_, action.turn.id);
  const auto lane = lanes_.find(action.turn.lane);
  const auto job = jobs_.find(action.turn.job);
  LW_CHECK(lane != lanes_.end(), "a turn is granted in an open lane");
  // A job that its client closed a moment ago: the turn is given back when the core recalls it.
  lane->second->grant(action.turn, job == jobs_.end() ? nullptr : job->second);
}

void Worker::perform(const lanes::RecallTurn& action) {
  lanes::TurnEnded ended;
  {
    MutexLock lock(mutex_);
    const auto lane = lanes_.find(action.lane);
    if (lane == lanes_.end() || !lane->second->recall(action.turn, ended)) return;
  }
  events_.post(ended);
}

}  // namespace laneway::service
