// The lane's half that leaves iterations in the air on devices that run behind.
#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "service/worker/worker.h"
#include "service/worker/worker_lane.h"

namespace laneway::service {

WorkerLane::Outcome WorkerLane::take_off(WorkerJob& job, std::shared_ptr<Work> work,
                                         GraphHandle graph, IterationResult result,
                                         TimePoint start) {
  work->took_off();
  WorkerGraph& flown = *graph;
  air_.push_back({.work = std::move(work),
                  .graph = std::move(graph),
                  .flight = std::move(result.flight),
                  .start = start});
  ++job.in_the_air;
  learn(result, worker_.plan_cache_);
  Outcome outcome;
  outcome.in_the_air = true;
  MutexLock lock(worker_.mutex_);
  flying_ = true;
  const Bytes need_before = job.need();
  apply(result, arena_.alignment(), flown.plan);
  ++turn_iterations_;
  turn_over_ = turn_over_ || job.need() != need_before;
  return outcome;
}

void WorkerLane::land_oldest(WorkerJob& job) {
  const InTheAir landed = std::move(air_.front());
  air_.pop_front();
  --job.in_the_air;
  const Status status = landed.flight->land();
  const TimePoint now = worker_.clock_.now();
  // One after the other: what it had to itself, so that the times of a turn add up.
  const TimePoint start = std::max(landed.start, last_landing_);
  const Duration took = now - start;
  last_landing_ = now;
  if (status) {
    landed.work->complete({}, took);
  } else {
    if (!crash_) crash_ = status.error();
    if (crash_->code == ErrorCode::device_lost) {
      crash_ = worker_.device_failed(*crash_, job, landed.graph->torch->graph().name);
    }
    {
      // Whoever hears of it finds the job over.
      MutexLock lock(worker_.mutex_);
      if (!job.end_reason) job.end_reason = *crash_;
      job.closing = true;
    }
    landed.work->complete(*crash_, took, /*spoiled=*/true);
  }
  note_iteration(
      job, *landed.graph, start, took,
      status ? wire::IterationOutcome::completed : wire::IterationOutcome::failed_for_good);
  MutexLock lock(worker_.mutex_);
  turn_busy_ += took;
  landed.graph->plan.last_took = took;
  if (status) job.served();
}

void WorkerLane::land_all(WorkerJob& job) {
  while (!air_.empty()) land_oldest(job);
}

void WorkerLane::make_room_in_the_air(WorkerJob& job) {
  while (!air_.empty() && (air_.size() >= limits::kMaxFlights || air_.front().flight->done())) {
    land_oldest(job);
  }
}

bool WorkerLane::must_land() const {
  return stopping_ || recalled_ || turn_over_ || crash_ || job_->visitors > 0 || job_->closing ||
         job_->suspected > 0 || !worker_.may_begin(*this) || budget_used();
}

void WorkerLane::rest_in_the_air() {
  Mutex& mutex = worker_.mutex_;
  const std::shared_ptr<WorkerJob> job = job_;
  const TimePoint since = worker_.clock_.now();
  while (!has_next() && !must_land()) {
    const Duration rested = worker_.clock_.now() - since;
    if (rested >= limits::kLandingSpin) {
      wait_for_work(std::clamp(Duration(rested.ns() / 32), limits::kShortestLandingRest,
                               limits::kLongestLandingRest));
    }
    mutex.unlock();
    const bool landed = air_.front().flight->done();
    if (landed) {
      land_oldest(*job);
    } else {
      std::this_thread::yield();
    }
    mutex.lock();
    if (landed) break;
  }
  if (air_.empty()) settle();
}

void WorkerLane::settle() {
  Mutex& mutex = worker_.mutex_;
  const std::shared_ptr<WorkerJob> job = job_;
  turn_over_ = turn_over_ || budget_used();
  mutex.unlock();
  land_all(*job);
  mutex.lock();
  const Outcome outcome = finish_unrun(*job);
  if (!outcome.ended) return;
  mutex.unlock();
  worker_.events_.post(*outcome.ended);
  if (outcome.ended->end == lanes::TurnEnd::failed) worker_.tell_of_lost_jobs();
  mutex.lock();
}

}  // namespace laneway::service
