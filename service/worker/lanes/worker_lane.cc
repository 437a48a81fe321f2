#include "service/worker/lanes/worker_lane.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"
#include "service/worker/common/crash_notes.h"
#include "service/worker/common/limits.h"
#include "service/worker/images/image_use.h"
#include "service/worker/lanes/iteration_answer.h"
#include "service/worker/state/guarded_commit.h"

namespace laneway::service {

WorkerLane::WorkerLane(WorkerContext& context, LaneHost& host, LaneId id,
                       Result<std::unique_ptr<adaptor::DeviceLane>> device)
    : context_(context),
      host_(host),
      id_(id),
      executor_(context.backend, context.teams, id, std::move(device)),
      guard_(context, id, executor_.device()),
      enqueued_(context.clock),
      turn_(context.clock),
      computing_(context, id),
      pause_(context, id, guard_, turn_, computing_),
      wait_(context, id),
      thread_([this] { thread_main(); }) {}

WorkerLane::~WorkerLane() { LW_CHECK(!thread_.joinable(), "a lane's thread is joined before"); }

void WorkerLane::set_region(RegionId region, std::byte* base, Bytes size) {
  LW_CHECK(!busy_ && !turn_.is_open(), "a region changes only between turns");
  region_ = region;
  executor_.bind(base, size);
}

void WorkerLane::grant(const lanes::Turn& turn, std::shared_ptr<WorkerJob> job) {
  turn_.begin(turn);
  context_.preemption.granted(turn);
  job_ = std::move(job);
  crash_.reset();
  if (job_) {
    job_->lane = this;
    executor_.allow_replay(host_.may_replay(*job_));
    executor_.next_user(job_->user, host_.many_users());
    host_.unwatch_links(*job_);
    wait_.follow(job_);
  }
  work_arrived();
}

bool WorkerLane::recall(const lanes::RecallTurn& asked, lanes::TurnEnded& ended) {
  if (!turn_.is_open() || turn_.id() != asked.turn) return false;
  if (busy_) {
    turn_.end_soon();  // whoever is busy ends it at the boundary
    retire_soon();
    if (asked.latest < lanes::kWhenever) pause_.hurry(asked.latest);
    return false;
  }
  ended = end_turn(lanes::TurnEnd::idle);
  return true;
}

void WorkerLane::stop() {
  stopping_ = true;
  work_arrived();
}

bool WorkerLane::begin_now(WorkerJob& job, const WorkerGraph& graph) {
  const bool free = turn_.is_open() && job_.get() == &job && !busy_ && !turn_.is_to_end() &&
                    !job.running && job.visitors == 0 && !job.ready() &&
                    !context_.preemption.yields(id_);
  // What does not fit the lane yet (a graph that was added later) waits for it to grow.
  if (!free || graph.plan.need > executor_.size()) return false;
  job.running = busy_ = true;
  pause_.reset();
  pause_.begin(graph.plan.last_took, /*may_be_abandoned=*/true);
  return true;
}

std::optional<Status> WorkerLane::run_now(WorkerJob& job, WorkerGraph& graph,
                                          std::span<const lanes::InputView> inputs,
                                          std::span<const lanes::OutputView> outputs) {
  const TimePoint start = context_.clock.now();
  std::optional<ArrivingImage> arriving = begin_to_use(context_, job, graph, {});
  Interruption asked = interruption(job, graph);
  IterationResult result =
      executor_.run(graph, inputs, outputs, nullptr, arriving ? &*arriving : nullptr, &asked);
  retire(result);
  check_device(result, job, graph);
  host_.learn(job, graph, result);
  const Duration took = spent(context_, job, graph, arriving, result, {start, pause_.held_for()});
  Outcome outcome;
  {
    const BookkeepingLock lock(context_.mutex);
    outcome = finish(job, graph, std::move(result), took);
    if (has_next() || to_be_given_back()) work_arrived();
  }
  if (outcome.ended) host_.tell_turn_ended(*outcome.ended);
  return outcome.again ? std::nullopt : std::optional(std::move(outcome.status));
}

bool WorkerLane::has_next() const {
  if (!turn_.is_open() || !job_ || job_->visitors != 0 || !job_->ready()) return false;
  if (!host_.may_begin(*this, *job_)) return false;
  return has_enqueued_ ? !must_retire() : !busy_ && !job_->running;
}

bool WorkerLane::could_take() const {
  return job_ && !job_->links.empty() && (!job_->running || has_enqueued_) && !job_->closing &&
         job_->visitors == 0 && host_.may_begin(*this, *job_);
}

bool WorkerLane::to_be_given_back() const {
  if (!turn_.is_open() || busy_ || !turn_.is_bounded()) return false;
  return !job_ || (!job_->running && !job_->ready() && turn_.has_lingered());
}

lanes::TurnEnded WorkerLane::end_turn(lanes::TurnEnd why) {
  if (job_ == nullptr) return turn_.end(why, /*more_ready=*/false, Bytes());
  host_.end_trial(*job_);
  pause_.rest();
  job_->lane = nullptr;
  job_->account(turn_);
  wait_.unfollow(turn_.is_bounded() || turn_.is_to_end());
  const bool more_ready = !job_->queue.empty() || host_.watch_links(*job_);
  const lanes::TurnEnded ended = turn_.end(why, more_ready, job_->need());
  job_.reset();
  return ended;
}

Interruption WorkerLane::interruption(WorkerJob& job, const WorkerGraph& graph) {
  return pause_.interruption(job, graph, [this, &job] {
    if (!executor_.drain_unless_recording()) return false;
    retire_all(job);
    return true;
  });
}

void WorkerLane::check_device(IterationResult& result, WorkerJob& job, const WorkerGraph& graph) {
  const bool cancelled = result.end == IterationEnd::cancelled;
  const bool failed = cancelled || result.end == IterationEnd::failed_clean ||
                      result.end == IterationEnd::failed_for_good;
  if (cancelled || (failed && job.arrival.is_lost())) result.error = lost_image(context_, job);
  if (failed && !crash_) {
    crash_ = host_.device_error_behind(result.error, job, graph.torch->graph().name);
  }
  if (!crash_) return;
  result.end = IterationEnd::failed_for_good;
  result.error = *crash_;
}

WorkerLane::Outcome WorkerLane::finish(WorkerJob& job, WorkerGraph& graph, IterationResult result,
                                       Duration took) {
  end_work(job);
  job.changed.notify_all();
  const Bytes need_before = job.need();
  apply(result, executor_.alignment(), graph.plan);
  job.booked = job.answered;
  Outcome outcome{.status = {}, .again = is_run_again(result.end), .ended = {}};
  const IterationKind kind = job.kind_of(graph, result.was_planned);
  switch (result.end) {
    case IterationEnd::completed:
      turn_.count_iteration(kind);
      turn_.count_time(kind, took);
      graph.plan.count_time(took, result.was_planned);
      job.served();
      break;
    case IterationEnd::out_of_lane:
      // The pool's size is the only limit: what does not fit a lane may fit one of all the rest.
      if (const Bytes most = context_.room_beside(job.torch->layout().total());
          executor_.size() < most) {
        graph.plan.need = std::min(graph.plan.need, most);
      }
      outcome.ended = end_turn(lanes::TurnEnd::out_of_lane);
      outcome.ended->must = graph.plan.need;
      return outcome;
    case IterationEnd::abandoned: turn_.count_abandoned(); break;
    case IterationEnd::cancelled:
    case IterationEnd::failed_clean: outcome.status = std::move(result.error); break;
    case IterationEnd::failed_for_good:
      job.end_reason = result.error;
      job.closing = true;
      outcome.status = std::move(result.error);
      outcome.ended = end_turn(lanes::TurnEnd::failed);
      return outcome;
  }
  const bool learnt = job.need() != need_before;
  if (learnt || turn_.is_to_end() || turn_.budget_used() || to_be_given_back()) {
    outcome.ended = end_turn(lanes::TurnEnd::idle);
  }
  return outcome;
}

void WorkerLane::end_work(WorkerJob& job) {
  guard_.end();
  pause_.end(job.ready() && !turn_.is_to_end());
  busy_ = false;
  has_enqueued_ = false;
  job.running = false;
  computing_.end();
  if (job.suspected > 0 && !job.ready()) job.acquit();
  host_.work_ended(job);
}

void WorkerLane::thread_main() {
  const LaneThread thread(id_);
  BookkeepingMutex& mutex = context_.mutex;
  mutex.lock();
  while (!stopping_ || has_enqueued_) {
    if (to_be_given_back()) {
      const lanes::TurnEnded ended = end_turn(lanes::TurnEnd::idle);
      mutex.unlock();
      host_.tell_turn_ended(ended);
      mutex.lock();
      continue;
    }
    if (job_ && job_->suspected > 0 && !busy_) host_.seek_trial(*job_);
    if (has_enqueued_ && must_retire()) {
      settle();
    } else if (has_next()) {
      run_next();
    } else if (has_enqueued_) {
      rest_while_enqueued();
    } else {
      pause_.rest();
      wait_.rest(could_take(), turn_.looks_again(busy_));
    }
  }
  wait_.end_team();
  mutex.unlock();
  executor_.drain();
}

void WorkerLane::run_next() {
  if (job_->guard.restore_pending) return run_restore();
  const std::shared_ptr<WorkerJob> job = job_;
  std::shared_ptr<Work> work = job->take_next();
  if (work == nullptr) return;  // a client broke its ring
  job->changed.notify_all();    // the queue has room
  job->running = busy_ = true;
  pause_.reset();
  computing_.begin(work->threads(), *job);
  context_.mutex.unlock();
  clear_region(*job);
  run_work(job, std::move(work));
  context_.mutex.lock();
}

void WorkerLane::run_restore() {
  const std::shared_ptr<WorkerJob> job = job_;
  job->running = busy_ = true;
  pause_.reset();
  context_.mutex.unlock();
  clear_region(*job);
  GraphHandle at;
  IterationResult result = guard_.restore_snapshot_of(*job, executor_, at);
  context_.mutex.lock();
  Outcome outcome;
  if (result.end == IterationEnd::out_of_lane) {
    outcome = finish(*job, *at, std::move(result), Duration());
  } else {
    job->guard.restore_pending = false;
    if (result.end != IterationEnd::completed && !crash_) crash_ = result.error;
    outcome = finish_unrun(*job);
  }
  if (!outcome.ended) return;
  context_.mutex.unlock();
  host_.tell_turn_ended(*outcome.ended);
  context_.mutex.lock();
}

void WorkerLane::clear_region(WorkerJob& job) {
  if (const Status cleared = executor_.clear_foreign(); !cleared)
    crash_ = host_.device_failed(cleared.error(), job, "");
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the last owner, so that it ends in here
void WorkerLane::run_work(const std::shared_ptr<WorkerJob>& job, std::shared_ptr<Work> work) {
  Outcome outcome = work->is_iteration() ? run_iteration_work(*job, work) : run_access(*job, *work);
  if (outcome.ended) context_.events.post(*outcome.ended);
  if (outcome.enqueued) return;
  if (!outcome.again && !work->uses_job()) work->complete(std::move(outcome.status));
  if (outcome.ended && outcome.ended->end == lanes::TurnEnd::failed) host_.tell_of_lost_jobs();
}

WorkerLane::Outcome WorkerLane::run_access(WorkerJob& job, Work& work) {
  retire_all(job);
  Status status = crash_ ? Status(*crash_) : work.prepare();
  if (status && !job.arrival.wait_whole()) status = lost_image(context_, job);
  if (status) {
    guard_.before_access(job, work);
    status = host_.access_now(job, work);
    guard_.after_access(job, work);
  }
  if (!crash_ && !status && status.error().code == ErrorCode::device_lost) crash_ = status.error();
  work.complete(std::move(status));
  const BookkeepingLock lock(context_.mutex);
  return finish_unrun(job);
}

WorkerLane::Outcome WorkerLane::run_iteration_work(WorkerJob& job,
                                                   const std::shared_ptr<Work>& work) {
  make_room_to_enqueue(job);
  const std::optional<Error>& refused = crash_ ? crash_ : job.quarantined;
  if (Status ready = refused ? Status(*refused) : work->prepare(); !ready) {
    retire_all(job);  // answers come in their order
    work->complete(std::move(ready));
    const BookkeepingLock lock(context_.mutex);
    return finish_unrun(job);
  }
  GraphHandle graph = work->graph();  // work that is complete has none
  const bool journalled = work->is_journalled();
  // Whoever looks for hangs must not take a wait for one.
  std::function<void(bool)> on_wait;
  if (journalled) on_wait = [this](bool waits) { guard_.wait(waits); };
  std::optional<ArrivingImage> arriving = begin_to_use(context_, job, *graph, std::move(on_wait));
  {
    const BookkeepingLock lock(context_.mutex);
    pause_.begin(graph->plan.last_took, work->abandons() < limits::kMostAbandons);
  }
  const TimePoint start = context_.clock.now();
  Interruption asked = interruption(job, *graph);
  GuardedCommit commit(guard_, job, *graph, *work, [&] {
    retire_all(job);  // the journal knows of one iteration at a time
    return !crash_;
  });
  IterationResult result =
      executor_.run(*graph, work->inputs(), work->outputs(), journalled ? &commit : nullptr,
                    arriving ? &*arriving : nullptr, &asked);
  // With nothing in flight before it, an iteration that is complete keeps the order of answers.
  if (result.enqueued != nullptr && enqueued_.empty() && result.enqueued->done()) retire(result);
  if (result.enqueued != nullptr) {
    const DeviceIteration ran = device_iteration(result, arriving, pause_.held_for());
    return enqueue(job, {work, std::move(graph), std::move(result.enqueued), start, ran}, result);
  }
  retire_all(job);
  check_device(result, job, *graph);
  if (!crash_) guard_.take_back(job, executor_, result);
  const Duration took = spent(context_, job, *graph, arriving, result, {start, pause_.held_for()});
  answer(context_, guard_, {.job = job, .graph = *graph, .work = *work, .lane = id_}, result,
         {.start = start, .took = took, .held = pause_.held_for(), .measured = commit.measured()});
  host_.learn(job, *graph, result);
  const BookkeepingLock lock(context_.mutex);
  if (graph->uses_team()) wait_.team_used();
  if (result.end == IterationEnd::abandoned) work->abandoned();
  if (is_run_again(result.end)) job.run_again(work, result.end == IterationEnd::out_of_lane);
  Outcome outcome = finish(job, *graph, std::move(result), took);
  if (job.closing) job.close_links();
  return outcome;
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
  } else if (turn_.is_to_end() || to_be_given_back()) {
    outcome.ended = end_turn(lanes::TurnEnd::idle);
  }
  return outcome;
}

}  // namespace laneway::service
