// The lane's half that leaves iterations in flight on devices that run behind.
#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "service/worker/worker.h"
#include "service/worker/worker_lane.h"

namespace laneway::service {

WorkerLane::Outcome WorkerLane::enqueue(WorkerJob& job, std::shared_ptr<Work> work,
                                        GraphHandle graph, IterationResult result,
                                        TimePoint start) {
  work->enqueued();
  WorkerGraph& flown = *graph;
  air_.push_back({.work = std::move(work),
                  .graph = std::move(graph),
                  .enqueued = std::move(result.enqueued),
                  .start = start});
  ++job.enqueued;
  learn(result, worker_.plan_cache_);
  Outcome outcome;
  outcome.enqueued = true;
  MutexLock lock(worker_.mutex_);
  has_enqueued_ = true;
  const Bytes need_before = job.need();
  apply(result, arena_.alignment(), flown.plan);
  ++turn_iterations_;
  turn_over_ = turn_over_ || job.need() != need_before;
  return outcome;
}

void WorkerLane::retire_oldest(WorkerJob& job) {
  const InTheAir retired = std::move(air_.front());
  air_.pop_front();
  --job.enqueued;
  const Status status = retired.enqueued->retire();
  const TimePoint now = worker_.clock_.now();
  // One after the other: what it had to itself, so that the times of a turn add up.
  const TimePoint start = std::max(retired.start, last_retirement_);
  const Duration took = now - start;
  last_retirement_ = now;
  if (status) {
    retired.work->complete({}, took);
  } else {
    if (!crash_) crash_ = status.error();
    if (crash_->code == ErrorCode::device_lost) {
      crash_ = worker_.device_failed(*crash_, job, retired.graph->torch->graph().name);
    }
    {
      // Whoever hears of it finds the job over.
      MutexLock lock(worker_.mutex_);
      if (!job.end_reason) job.end_reason = *crash_;
      job.closing = true;
    }
    retired.work->complete(*crash_, took, /*spoiled=*/true);
  }
  note_iteration(
      job, *retired.graph, start, took,
      status ? wire::IterationOutcome::completed : wire::IterationOutcome::failed_for_good);
  MutexLock lock(worker_.mutex_);
  turn_busy_ += took;
  retired.graph->plan.last_took = took;
  if (status) job.served();
}

void WorkerLane::retire_all(WorkerJob& job) {
  while (!air_.empty()) retire_oldest(job);
}

void WorkerLane::make_room_to_enqueue(WorkerJob& job) {
  while (!air_.empty() && (air_.size() >= limits::kMaxEnqueued || air_.front().enqueued->done())) {
    retire_oldest(job);
  }
}

bool WorkerLane::must_retire() const {
  return stopping_ || recalled_ || turn_over_ || crash_ || job_->visitors > 0 || job_->closing ||
         job_->suspected > 0 || !worker_.may_begin(*this) || budget_used();
}

void WorkerLane::rest_while_enqueued() {
  Mutex& mutex = worker_.mutex_;
  const std::shared_ptr<WorkerJob> job = job_;
  const TimePoint since = worker_.clock_.now();
  while (!has_next() && !must_retire()) {
    const Duration rested = worker_.clock_.now() - since;
    if (rested >= limits::kLandingSpin) {
      wait_for_work(std::clamp(Duration(rested.ns() / 32), limits::kShortestLandingRest,
                               limits::kLongestLandingRest));
    }
    mutex.unlock();
    const bool retired = air_.front().enqueued->done();
    if (retired) {
      retire_oldest(*job);
    } else {
      std::this_thread::yield();
    }
    mutex.lock();
    if (retired) break;
  }
  if (air_.empty()) settle();
}

void WorkerLane::settle() {
  Mutex& mutex = worker_.mutex_;
  const std::shared_ptr<WorkerJob> job = job_;
  turn_over_ = turn_over_ || budget_used();
  mutex.unlock();
  retire_all(*job);
  mutex.lock();
  const Outcome outcome = finish_unrun(*job);
  if (!outcome.ended) return;
  mutex.unlock();
  worker_.events_.post(*outcome.ended);
  if (outcome.ended->end == lanes::TurnEnd::failed) worker_.tell_of_lost_jobs();
  mutex.lock();
}

}  // namespace laneway::service
