#include "service/worker/lanes/lane_pause.h"

#include <algorithm>
#include <utility>

#include "adaptor/scope/thread_team.h"
#include "base/fault_point.h"
#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "service/worker/common/limits.h"

namespace laneway::service {

void LanePause::reset() {
  word().clear(lanes::control::kStop);
  context_.preemption.exempt(lane_, false);
  held_for_ = {};
  hurried_.reset();
}

void LanePause::begin(Duration usual, bool may_be_abandoned) {
  started_ = context_.clock.now();
  usual_ = usual;
  iterating_ = true;
  expected_ = context_.preemption.yields(lane_);
  may_be_abandoned_ = may_be_abandoned;
  longest_ = std::max(limits::kLeastPause, usual * limits::kPauseFactor);
  context_.preemption.begin_work(lane_);
  if (hurried_) hurry(*hurried_);
}

// A first iteration is as long as it likes: whoever waits does not know for how long.
Duration LanePause::left() const {
  if (usual_ == Duration()) return lanes::kWhenever;
  return usual_ - (context_.clock.now() - started_ - held_for_);
}

void LanePause::hurry(Duration latest) {
  hurried_ = latest;
  if (!iterating_ || !may_be_abandoned_ || left() <= latest) return;
  context_.preemption.stop(lane_, lanes::control::kAbandon);
}

void LanePause::end(bool more_is_ready) {
  iterating_ = false;
  if (!more_is_ready) rest();
}

Interruption LanePause::interruption(WorkerJob& job, const WorkerGraph& graph,
                                     std::function<bool()> settle) {
  return {.word = word(),
          .pause =
              [this, &job, &graph, settle = std::move(settle)] {
                if (settle()) return hold(job, graph);
                const BookkeepingLock lock(context_.mutex);
                context_.preemption.exempt(lane_, true);
              },
          .expected = expected_ && job.offer.options.replay != Replay::on};
}

void LanePause::hold(WorkerJob& job, const WorkerGraph& graph) {
  guard_.wait(true);
  if (graph.uses_team()) adaptor::end_thread_team();
  uint32_t threads = 0;
  TurnId turn;
  {
    const BookkeepingLock lock(context_.mutex);
    threads = computing_.suspend();
    turn = turn_.id();
  }
  const Duration held = wait(job, turn);
  {
    const BookkeepingLock lock(context_.mutex);
    if (threads > 0) computing_.begin(threads, job);
    turn_.count_pause(held);
  }
  guard_.wait(false);
  if (graph.gathers_team()) {
    adaptor::gather_thread_team(context_.clock.now(), graph.torch->threads());
  }
}

Duration LanePause::wait(const WorkerJob& job, TurnId turn) {
  Preemption& preemption = context_.preemption;
  const TimePoint since = context_.clock.now();
  {
    const BookkeepingLock lock(context_.mutex);
    if (job.closing) preemption.stop(lane_, lanes::control::kCancel);
    if (job.closing || !preemption.is_held(lane_)) return {};
    paused_ = true;
    preemption.end_work(lane_);
  }
  fault_point("worker.pausing");
  context_.events.post(lanes::TurnPaused{.turn = turn});
  fault_point("worker.paused");
  Duration held;
  {
    const BookkeepingLock lock(context_.mutex);
    while (preemption.is_held(lane_) && (word().bits() & lanes::control::kStop) == 0) {
      const Duration left = longest_ - held_for_ - (context_.clock.now() - since);
      if (left.ns() <= 0) {
        preemption.exempt(lane_, true);
      } else {
        preemption.wait(context_.mutex, lane_, left);
      }
    }
    paused_ = false;
    preemption.begin_work(lane_);
    held = context_.clock.now() - since;
    held_for_ += held;
  }
  fault_point("worker.resuming");
  context_.events.post(lanes::TurnResumed{.turn = turn, .paused = held});
  fault_point("worker.resumed");
  return held;
}

void LanePause::give_up_paused() {
  if (paused_) context_.preemption.stop(lane_, lanes::control::kCancel);
}

}  // namespace laneway::service
