#include "service/worker/worker_lane.h"

#include <sys/prctl.h>

#include <algorithm>
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

// Threads that the work computes with; a copy of state needs one.
uint32_t threads_of(const Work& work) {
  if (work.graph() == nullptr) return 1;
  return static_cast<uint32_t>(work.graph()->torch->graph().context.threads);
}

// Only where the CPU can write it.
std::optional<unsigned char> poison(adaptor::Backend& backend) {
  const bool addressable = backend.device().capabilities().pool_is_addressable;
  return addressable ? memory::LaneArena::poison_asked_for() : std::nullopt;
}

}  // namespace

// Has the journal know of an iteration before it writes to the job's state. The journal knows of
// one at a time, so those before it retire first.
class WorkerLane::Commit final : public CommitEntry {
 public:
  Commit(WorkerLane& lane, WorkerJob& job, Work& work) : lane_(lane), job_(job), work_(work) {}
  bool enter() override {
    if (!lane_.air_.empty()) lane_.retire_all(job_);
    if (lane_.crash_) return false;
    work_.enter_commit();
    return true;
  }

 private:
  WorkerLane& lane_;
  WorkerJob& job_;
  Work& work_;
};

WorkerLane::WorkerLane(Worker& worker, LaneId id,
                       Result<std::unique_ptr<adaptor::DeviceLane>> device)
    : worker_(worker),
      id_(id),
      device_(std::move(device)),
      arena_(worker.backend_.alignment(), poison(worker.backend_)),
      spin_(worker.clock_),
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
  turn_over_ = false;
  crash_.reset();
  turn_iterations_ = 0;
  turn_busy_ = Duration();
  turn_start_ = worker_.clock_.now();
  if (job_) {
    job_->lane = this;
    replay_ = worker_.may_replay(*job_);
    clear_first_ = worker_.many_users_ && last_user_ != job_->user;
    last_user_ = job_->user;
    worker_.unwatch_links(*job_);
    for (const auto& link : job_->links) link_added(*link);
  }
  work_arrived();
}

void WorkerLane::work_arrived() {
  arrivals_.fetch_add(1, std::memory_order_relaxed);
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
    retire_soon();
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
  if (!turn_ || !job_ || job_->visitors != 0 || !job_->ready()) return false;
  if (!worker_.may_begin(*this)) return false;
  return has_enqueued_ ? !must_retire() : !busy_ && !job_->running;
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
    if (worker_.tried_ == job_.get()) worker_.end_trial(*job_);
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
                                std::span<const lanes::OutputView> outputs, CommitEntry* commit) {
  if (!device_) {
    IterationResult result;
    result.end = IterationEnd::failed_for_good;
    result.error = device_.error();
    return result;
  }
  graph.torch->allow_replay(replay_);
  return run_iteration(graph, *device_.value(), arena_, inputs, outputs, commit);
}

void WorkerLane::check_device(IterationResult& result, WorkerJob& job, const WorkerGraph& graph) {
  const bool failed =
      result.end == IterationEnd::failed_clean || result.end == IterationEnd::failed_for_good;
  if (failed && !crash_) {
    if (const Status health = worker_.backend_.health(); !health) {
      crash_ = health.error();
    } else if (result.error.code == ErrorCode::device_lost) {
      crash_ = result.error;
    }
    if (crash_) crash_ = worker_.device_failed(*crash_, job, graph.torch->graph().name);
  }
  if (!crash_) return;
  result.end = IterationEnd::failed_for_good;
  result.error = *crash_;
}

WorkerLane::Outcome WorkerLane::finish(WorkerJob& job, WorkerGraph& graph, IterationResult result,
                                       Duration took) {
  if (graph.uses_team()) team_used_ = worker_.clock_.now();
  end_work(job);
  job.changed.notify_all();
  GraphPlan& plan = graph.plan;
  const Bytes need_before = job.need();
  apply(result, arena_.alignment(), plan);
  Outcome outcome;
  switch (result.end) {
    case IterationEnd::completed:
      ++turn_iterations_;
      turn_busy_ += took;
      plan.last_took = took;
      job.served();
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
  if (learnt || recalled_ || turn_over_ || budget_used() || to_be_given_back())
    outcome.ended = end_turn(lanes::TurnEnd::idle);
  return outcome;
}

void WorkerLane::seek_trial() {
  if (!job_ || job_->suspected == 0 || busy_) return;
  if (job_->visitors == 0 && !job_->running && job_->ready()) {
    worker_.begin_trial(*job_);
  } else if (worker_.tried_ == job_.get()) {
    worker_.end_trial(*job_);
  }
}

void WorkerLane::end_work(WorkerJob& job) {
  busy_ = false;
  has_enqueued_ = false;
  job.running = false;
  worker_.computing_threads_ -= std::exchange(threads_, 0);
  if (job.suspected > 0 && !job.ready()) job.acquit();
  worker_.end_trial(job);
}

void WorkerLane::thread_main() {
  // Rests between looks at what is in flight are shorter than the kernel's usual lateness.
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  Mutex& mutex = worker_.mutex_;
  mutex.lock();
  while (!stopping_ || has_enqueued_) {
    if (to_be_given_back()) {
      const lanes::TurnEnded ended = end_turn(lanes::TurnEnd::idle);
      mutex.unlock();
      worker_.events_.post(ended);
      mutex.lock();
      continue;
    }
    if (has_enqueued_ && must_retire()) {
      settle();
      continue;
    }
    seek_trial();
    if (!has_next()) {
      has_enqueued_ ? rest_while_enqueued() : rest_while_idle();
      continue;
    }
    const std::shared_ptr<WorkerJob> job = job_;
    std::shared_ptr<Work> work = job->take_next();
    if (work == nullptr) continue;  // a client broke its ring
    job->changed.notify_all();      // the queue has room
    job->running = true;
    busy_ = true;
    begin_computing(threads_of(*work));
    const bool clear = std::exchange(clear_first_, false);
    mutex.unlock();
    if (clear) clear_region(*job);
    run_work(job, std::move(work));
    mutex.lock();
  }
  mutex.unlock();
  if (device_) (void)device_.value()->drain();  // a device that failed has nothing under way
}

void WorkerLane::clear_region(WorkerJob& job) {
  const Status cleared = worker_.backend_.pool_access().fill(base_, std::byte{0}, size_);
  if (!cleared) crash_ = worker_.device_failed(cleared.error(), job, "");
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the last owner, so that it ends in here
void WorkerLane::run_work(const std::shared_ptr<WorkerJob>& job, std::shared_ptr<Work> work) {
  Outcome outcome = work->is_iteration() ? run_iteration_work(*job, work) : run_access(*job, *work);
  if (outcome.ended) worker_.events_.post(*outcome.ended);
  if (outcome.enqueued) return;
  if (!outcome.again && !work->uses_job()) work->complete(std::move(outcome.status));
  if (outcome.ended && outcome.ended->end == lanes::TurnEnd::failed) worker_.tell_of_lost_jobs();
}

WorkerLane::Outcome WorkerLane::run_access(WorkerJob& job, Work& work) {
  retire_all(job);
  Status status = crash_ ? Status(*crash_) : work.prepare();
  if (status) status = worker_.access_now(job, work);
  if (!crash_ && !status && status.error().code == ErrorCode::device_lost) crash_ = status.error();
  work.complete(std::move(status));
  MutexLock lock(worker_.mutex_);
  return finish_unrun(job);
}

WorkerLane::Outcome WorkerLane::run_iteration_work(WorkerJob& job,
                                                   const std::shared_ptr<Work>& work) {
  make_room_to_enqueue(job);
  if (Status ready = crash_ ? Status(*crash_) : work->prepare(); !ready) {
    retire_all(job);  // answers come in their order
    work->complete(std::move(ready));
    MutexLock lock(worker_.mutex_);
    return finish_unrun(job);
  }
  GraphHandle graph = work->graph();  // work that is complete has none
  const TimePoint start = worker_.clock_.now();
  Commit commit(*this, job, *work);
  IterationResult result =
      run(*graph, work->inputs(), work->outputs(), work->is_journalled() ? &commit : nullptr);
  // With nothing in flight before it, an iteration that is complete keeps the order of answers.
  if (result.enqueued != nullptr && air_.empty() && result.enqueued->done()) retire(result);
  if (result.enqueued != nullptr)
    return enqueue(job, work, std::move(graph), std::move(result), start);
  retire_all(job);
  check_device(result, job, *graph);
  const Duration took = worker_.clock_.now() - start;
  // The client need not wait for what is learnt from its iteration.
  if (result.end == IterationEnd::completed) {
    work->complete({}, took);
  } else if (result.end != IterationEnd::out_of_lane && work->uses_job()) {
    work->complete(result.error, took, result.end == IterationEnd::failed_for_good);
  }
  note_iteration(job, *graph, start, took, outcome_of(result.end));
  learn(result, worker_.plan_cache_);
  MutexLock lock(worker_.mutex_);
  if (result.end == IterationEnd::out_of_lane) job.queue.push_front(work);
  Outcome outcome = finish(job, *graph, std::move(result), took);
  if (job.closing) job.close_links();
  return outcome;
}

void WorkerLane::note_iteration(const WorkerJob& job, const WorkerGraph& graph, TimePoint start,
                                Duration took, wire::IterationOutcome outcome) {
  if (worker_.iterations_ == nullptr) return;
  worker_.iterations_->iterated({.job = job.id,
                                 .lane = id_,
                                 .graph = graph.number,
                                 .start_ns = start.ns(),
                                 .took_ns = took.ns(),
                                 .outcome = outcome});
}

WorkerLane::Outcome WorkerLane::finish_unrun(WorkerJob& job) {
  end_work(job);
  if (crash_) {
    if (!job.end_reason) job.end_reason = *crash_;
    job.closing = true;
  }
  if (job.closing) job.close_links();
  job.changed.notify_all();
  Outcome outcome;
  if (crash_) {
    outcome.status = *crash_;
    outcome.ended = end_turn(lanes::TurnEnd::failed);
  } else if (recalled_ || turn_over_ || to_be_given_back()) {
    outcome.ended = end_turn(lanes::TurnEnd::idle);
  }
  return outcome;
}

}  // namespace laneway::service
