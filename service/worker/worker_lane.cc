#include "service/worker/worker_lane.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "service/worker/worker.h"

namespace laneway::service {

WorkerLane::WorkerLane(Worker& worker, LaneId id)
    : worker_(worker),
      id_(id),
      arena_(limits::kHostAlignment, memory::LaneArena::poison_asked_for()),
      thread_([this] { thread_main(); }) {}

WorkerLane::~WorkerLane() { LW_CHECK(!thread_.joinable(), "a lane's thread is joined before"); }

void WorkerLane::set_region(RegionId region, std::byte* base, Bytes size) {
  LW_CHECK(!busy_ && !turn_, "a region changes only between turns");
  region_ = region;
  base_ = base;
  size_ = size;
  arena_.bind(base, size);
}

void WorkerLane::grant(const lanes::Turn& turn, std::shared_ptr<WorkerJob> job) {
  LW_CHECK(!turn_, "a lane has one turn at a time");
  turn_ = turn;
  job_ = std::move(job);
  if (job_) job_->lane = this;
  recalled_ = false;
  turn_iterations_ = 0;
  turn_busy_ = Duration();
  turn_start_ = worker_.clock_.now();
  wake_.notify_one();
}

bool WorkerLane::recall(TurnId turn, lanes::TurnEnded& ended) {
  if (!turn_ || turn_->id != turn) return false;
  if (busy_) {
    recalled_ = true;  // whoever is busy ends it at the boundary
    return false;
  }
  ended = end_turn(lanes::TurnEnd::idle);
  return true;
}

void WorkerLane::stop() {
  stopping_ = true;
  wake_.notify_one();
}

bool WorkerLane::can_run_now(const WorkerJob& job) const {
  return turn_ && job_.get() == &job && !busy_ && !recalled_ && !job.running && job.visitors == 0 &&
         job.queue.empty();
}

bool WorkerLane::has_next() const {
  return turn_ && !busy_ && job_ && !job_->running && job_->visitors == 0 && !job_->queue.empty();
}

bool WorkerLane::to_be_given_back() const {
  if (!turn_ || busy_) return false;
  const lanes::TurnBudget& budget = turn_->envelope.budget;
  if (budget.iterations == 0 && budget.slice.ns() == 0) return false;
  return !job_ || (!job_->running && job_->queue.empty());
}

bool WorkerLane::budget_used() const {
  const lanes::TurnBudget& budget = turn_->envelope.budget;
  if (budget.iterations > 0 && turn_iterations_ >= budget.iterations) return true;
  return budget.slice.ns() > 0 && worker_.clock_.now() - turn_start_ >= budget.slice;
}

lanes::TurnEnded WorkerLane::end_turn(lanes::TurnEnd why) {
  lanes::TurnEnded ended{.turn = turn_->id,
                         .end = why,
                         .iterations = turn_iterations_,
                         .busy = turn_busy_,
                         .more_ready = job_ && !job_->queue.empty(),
                         .ephemeral = job_ ? job_->need() : Bytes()};
  if (why == lanes::TurnEnd::idle && ended.more_ready) ended.end = lanes::TurnEnd::budget;
  if (job_) job_->lane = nullptr;
  job_.reset();
  turn_.reset();
  recalled_ = false;
  return ended;
}

IterationResult WorkerLane::run(WorkerGraph& graph, std::span<const lanes::InputView> inputs,
                                std::span<const lanes::OutputView> outputs) {
  return run_iteration(graph, arena_, inputs, outputs);
}

WorkerLane::Outcome WorkerLane::finish(WorkerJob& job, WorkerGraph& graph, IterationResult result,
                                       Duration took) {
  busy_ = false;
  job.running = false;
  job.changed.notify_all();
  GraphPlan& plan = graph.plan;
  const Bytes need_before = job.need();
  apply(result, plan);
  Outcome outcome;
  switch (result.end) {
    case IterationEnd::completed:
      ++turn_iterations_;
      turn_busy_ += took;
      plan.last_took = took;
      break;
    case IterationEnd::out_of_lane:
      // The pool's size is the only limit: what does not fit a lane may fit one of all the rest.
      if (const Bytes most = worker_.room_beside_image(job); size_ < most) {
        plan.need = std::min(plan.need, most);
      }
      outcome.again = true;
      outcome.ended = end_turn(lanes::TurnEnd::out_of_lane);
      return outcome;
    case IterationEnd::failed_clean: outcome.status = std::move(result.error); break;
    case IterationEnd::failed_for_good:
      job.end_reason = result.error;
      job.closing = true;
      outcome.status = std::move(result.error);
      outcome.ended = end_turn(lanes::TurnEnd::failed);
      return outcome;
  }
  const bool learnt = job.need() != need_before;
  if (learnt || recalled_ || budget_used() || to_be_given_back())
    outcome.ended = end_turn(lanes::TurnEnd::idle);
  return outcome;
}

void WorkerLane::thread_main() {
  Mutex& mutex = worker_.mutex_;
  mutex.lock();
  while (!stopping_) {
    if (to_be_given_back()) {
      const lanes::TurnEnded ended = end_turn(lanes::TurnEnd::idle);
      mutex.unlock();
      worker_.events_.post(ended);
      mutex.lock();
      continue;
    }
    if (!has_next()) {
      wake_.wait(mutex);
      continue;
    }
    const std::shared_ptr<WorkerJob> job = job_;
    std::shared_ptr<Work> work = std::move(job->queue.front());
    job->queue.pop_front();
    job->running = true;
    busy_ = true;
    mutex.unlock();
    run_work(job, std::move(work));
    mutex.lock();
  }
  mutex.unlock();
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the last owner, so that it ends in here
void WorkerLane::run_work(const std::shared_ptr<WorkerJob>& job, std::shared_ptr<Work> work) {
  Outcome outcome;
  if (!work->is_iteration()) {
    work->complete(work->access()(job->image));
    MutexLock lock(worker_.mutex_);
    busy_ = false;
    job->running = false;
    job->changed.notify_all();
    if (recalled_ || to_be_given_back()) outcome.ended = end_turn(lanes::TurnEnd::idle);
  } else {
    const GraphHandle graph = work->graph();  // work that is complete has none
    const TimePoint start = worker_.clock_.now();
    IterationResult result = run(*graph, work->inputs(), work->outputs());
    const Duration took = worker_.clock_.now() - start;
    // The client need not wait for what is learnt from its iteration.
    if (result.end == IterationEnd::completed) work->complete({});
    learn(result, worker_.plan_cache_);
    MutexLock lock(worker_.mutex_);
    if (result.end == IterationEnd::out_of_lane) job->queue.push_front(work);
    outcome = finish(*job, *graph, std::move(result), took);
  }
  if (outcome.ended) worker_.events_.post(*outcome.ended);
  if (!outcome.again && work->is_iteration()) work->complete(std::move(outcome.status));
}

}  // namespace laneway::service
