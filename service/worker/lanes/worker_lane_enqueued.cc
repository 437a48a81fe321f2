// The lane's half that leaves iterations in flight on devices that run behind.
#include <algorithm>
#include <thread>
#include <utility>

#include "service/worker/common/limits.h"
#include "service/worker/lanes/iteration_answer.h"
#include "service/worker/lanes/worker_lane.h"

namespace laneway::service {

WorkerLane::Outcome WorkerLane::enqueue(WorkerJob& job, EnqueuedQueue::Entry entry,
                                        IterationResult& result) {
  entry.work->enqueued();
  guard_.landing();
  WorkerGraph& graph = *entry.graph;
  enqueued_.push(std::move(entry));
  ++job.enqueued;
  host_.learn(job, graph, result);
  const BookkeepingLock lock(context_.mutex);
  has_enqueued_ = true;
  const Bytes need_before = job.need();
  const IterationKind kind = job.kind_of(graph, result.was_planned);
  apply(result, executor_.alignment(), graph.plan);
  turn_.count_iteration(kind);
  if (job.need() != need_before) turn_.end_soon();
  return {.status = {}, .enqueued = true, .ended = {}};
}

void WorkerLane::retire_oldest(WorkerJob& job) {
  --job.enqueued;
  const EnqueuedQueue::Retired retired = enqueued_.retire_oldest();
  WorkerGraph& graph = *retired.entry.graph;
  if (!retired.status) {
    if (!crash_) crash_ = retired.status.error();
    if (crash_->code == ErrorCode::device_lost) {
      crash_ = host_.device_failed(*crash_, job, graph.torch->graph().name);
    }
  }
  answer_retired(context_, guard_,
                 {.job = job, .graph = graph, .work = *retired.entry.work, .lane = id_}, retired,
                 crash_);
  if (retired.status) note_device_iteration(context_, job, graph, retired.entry.ran, retired.took);
  const BookkeepingLock lock(context_.mutex);
  turn_.count_time(job.kind_of(graph, retired.entry.ran.planned), retired.took);
  graph.plan.count_time(retired.took, retired.entry.ran.planned);
  if (retired.status) job.served();
}

void WorkerLane::retire_all(WorkerJob& job) {
  while (!enqueued_.empty()) retire_oldest(job);
}

void WorkerLane::make_room_to_enqueue(WorkerJob& job) {
  while (!enqueued_.empty() && (enqueued_.full() || enqueued_.oldest_is_done())) {
    retire_oldest(job);
  }
}

bool WorkerLane::must_retire() const {
  return stopping_ || turn_.is_to_end() || crash_ || job_->visitors > 0 || job_->closing ||
         job_->suspected > 0 || !host_.may_begin(*this, *job_) || turn_.budget_used();
}

void WorkerLane::rest_while_enqueued() {
  BookkeepingMutex& mutex = context_.mutex;
  const std::shared_ptr<WorkerJob> job = job_;
  const TimePoint since = context_.clock.now();
  while (!has_next() && !must_retire()) {
    const Duration rested = context_.clock.now() - since;
    if (rested >= limits::kLandingSpin) {
      wait_.wait(could_take(), std::clamp(Duration(rested.ns() / 32), limits::kShortestLandingRest,
                                          limits::kLongestLandingRest));
    }
    mutex.unlock();
    const bool retired = enqueued_.oldest_is_done();
    if (retired) {
      retire_oldest(*job);
    } else {
      std::this_thread::yield();
    }
    mutex.lock();
    if (retired) break;
  }
  if (enqueued_.empty()) settle();
}

void WorkerLane::settle() {
  BookkeepingMutex& mutex = context_.mutex;
  const std::shared_ptr<WorkerJob> job = job_;
  if (turn_.budget_used()) turn_.end_soon();
  mutex.unlock();
  retire_all(*job);
  mutex.lock();
  const Outcome outcome = finish_unrun(*job);
  if (!outcome.ended) return;
  mutex.unlock();
  host_.tell_turn_ended(*outcome.ended);
  mutex.lock();
}

}  // namespace laneway::service
