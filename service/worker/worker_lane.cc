#include "service/worker/worker_lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "service/worker/worker.h"

namespace laneway::service {
namespace {

wire::IterationOutcome outcome_of(IterationEnd end) {
  switch (end) {
    case IterationEnd::completed: return wire::IterationOutcome::completed;
    case IterationEnd::out_of_lane: return wire::IterationOutcome::did_not_fit;
    case IterationEnd::failed_clean: return wire::IterationOutcome::failed;
    case IterationEnd::failed_for_good: return wire::IterationOutcome::failed_for_good;
  }
  return wire::IterationOutcome::failed_for_good;
}

}  // namespace

WorkerLane::WorkerLane(Worker& worker, LaneId id)
    : worker_(worker),
      id_(id),
      device_(worker.backend_.make_lane().value()),
      arena_(worker.backend_.alignment(), memory::LaneArena::poison_asked_for()),
      thread_([this] { thread_main(); }) {}

WorkerLane::~WorkerLane() { LW_CHECK(!thread_.joinable(), "a lane's thread is joined before"); }

void WorkerLane::set_region(RegionId region, std::byte* base, Bytes size) {
  LW_CHECK(!busy_ && !turn_, "a region changes only between turns");
  region_ = region;
  base_ = base;
  size_ = size;
  last_user_.reset();
  arena_.bind(base, size);
}

void WorkerLane::grant(const lanes::Turn& turn, std::shared_ptr<WorkerJob> job) {
  LW_CHECK(!turn_, "a lane has one turn at a time");
  turn_ = turn;
  job_ = std::move(job);
  recalled_ = false;
  turn_iterations_ = 0;
  turn_busy_ = Duration();
  turn_start_ = worker_.clock_.now();
  if (job_) {
    job_->lane = this;
    clear_first_ = worker_.many_users_ && last_user_ != job_->user;
    last_user_ = job_->user;
    worker_.unwatch_links(*job_);
    for (const auto& link : job_->links) link_added(*link);
  }
  work_arrived();
}

void WorkerLane::work_arrived() {
  wake_.notify_one();
  if (polling_) poll_->wake();
}

void WorkerLane::link_added(const Link& link) {
  if (poll_ == nullptr) poll_ = EventPoll::make().value();
  const Status added = poll_->add(link.ring->wake_descriptor(), link.key);
  LW_CHECK(added.ok(), "a link's descriptor can be waited for");
}

void WorkerLane::link_dropped(const Link& link) {
  poll_->remove(link.ring->wake_descriptor());
  work_arrived();
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
  work_arrived();
}

bool WorkerLane::can_run_now(const WorkerJob& job) const {
  return turn_ && job_.get() == &job && !busy_ && !recalled_ && !job.running && job.visitors == 0 &&
         !job.ready();
}

bool WorkerLane::has_next() const {
  return turn_ && !busy_ && job_ && !job_->running && job_->visitors == 0 && job_->ready();
}

bool WorkerLane::to_be_given_back() const {
  if (!turn_ || busy_) return false;
  const lanes::TurnBudget& budget = turn_->envelope.budget;
  if (budget.iterations == 0 && budget.slice.ns() == 0) return false;
  return !job_ || (!job_->running && !job_->ready());
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
                         .more_ready = false,
                         .ephemeral = job_ ? job_->need() : Bytes()};
  if (job_) {
    job_->lane = nullptr;
    job_->iterations += turn_iterations_;
    job_->busy += turn_busy_;
    for (const auto& link : job_->links) poll_->remove(link->ring->wake_descriptor());
    ended.more_ready = !job_->queue.empty() || worker_.watch_links(*job_);
  }
  if (why == lanes::TurnEnd::idle && ended.more_ready) ended.end = lanes::TurnEnd::budget;
  job_.reset();
  turn_.reset();
  recalled_ = false;
  return ended;
}

IterationResult WorkerLane::run(WorkerGraph& graph, std::span<const lanes::InputView> inputs,
                                std::span<const lanes::OutputView> outputs, JobJournal* journal) {
  return run_iteration(graph, *device_, arena_, inputs, outputs, journal);
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
      wait_for_work();
      continue;
    }
    const std::shared_ptr<WorkerJob> job = job_;
    std::shared_ptr<Work> work = job->take_next();
    if (work == nullptr) continue;  // a client broke its ring
    job->running = true;
    busy_ = true;
    const bool clear = std::exchange(clear_first_, false);
    mutex.unlock();
    if (clear) std::memset(base_, 0, static_cast<size_t>(size_.count()));
    run_work(job, std::move(work));
    mutex.lock();
  }
  mutex.unlock();
}

void WorkerLane::wait_for_work() {
  Mutex& mutex = worker_.mutex_;
  if (!turn_ || !job_ || job_->links.empty() || job_->running || job_->closing) {
    wake_.wait(mutex);
    return;
  }
  bool ready = false;
  for (const auto& link : job_->links) ready = !link->ring->arm() || ready;
  if (!ready) {
    polling_ = true;
    mutex.unlock();
    poll_->wait();
    mutex.lock();
    polling_ = false;
  }
  // The turn may be another job's by now; if there is none, its links are the watcher's.
  if (!job_) return;
  for (const auto& link : job_->links) link->ring->disarm();
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the last owner, so that it ends in here
void WorkerLane::run_work(const std::shared_ptr<WorkerJob>& job, std::shared_ptr<Work> work) {
  Outcome outcome = work->is_iteration() ? run_iteration_work(*job, work) : run_access(*job, *work);
  if (outcome.ended) worker_.events_.post(*outcome.ended);
  if (!outcome.again && !work->uses_job()) work->complete(std::move(outcome.status));
}

WorkerLane::Outcome WorkerLane::run_access(WorkerJob& job, Work& work) {
  Status status = work.prepare();
  if (status) status = work.access()(job.places());
  work.complete(std::move(status));
  MutexLock lock(worker_.mutex_);
  return finish_unrun(job);
}

WorkerLane::Outcome WorkerLane::run_iteration_work(WorkerJob& job,
                                                   const std::shared_ptr<Work>& work) {
  if (Status ready = work->prepare(); !ready) {
    work->complete(std::move(ready));
    MutexLock lock(worker_.mutex_);
    return finish_unrun(job);
  }
  const GraphHandle graph = work->graph();  // work that is complete has none
  const TimePoint start = worker_.clock_.now();
  IterationResult result = run(*graph, work->inputs(), work->outputs(), work->journal());
  const Duration took = worker_.clock_.now() - start;
  // The client need not wait for what is learnt from its iteration.
  if (result.end == IterationEnd::completed) {
    work->complete({}, took);
  } else if (result.end != IterationEnd::out_of_lane && work->uses_job()) {
    work->complete(result.error, took, result.end == IterationEnd::failed_for_good);
  }
  if (worker_.iterations_ != nullptr) {
    worker_.iterations_->iterated({.job = job.id,
                                   .lane = id_,
                                   .graph = graph->number,
                                   .start_ns = start.ns(),
                                   .took_ns = took.ns(),
                                   .outcome = outcome_of(result.end)});
  }
  learn(result, worker_.plan_cache_);
  MutexLock lock(worker_.mutex_);
  if (result.end == IterationEnd::out_of_lane) job.queue.push_front(work);
  Outcome outcome = finish(job, *graph, std::move(result), took);
  if (job.closing) job.close_links();
  return outcome;
}

WorkerLane::Outcome WorkerLane::finish_unrun(WorkerJob& job) {
  busy_ = false;
  job.running = false;
  if (job.closing) job.close_links();
  job.changed.notify_all();
  Outcome outcome;
  if (recalled_ || to_be_given_back()) outcome.ended = end_turn(lanes::TurnEnd::idle);
  return outcome;
}

}  // namespace laneway::service
