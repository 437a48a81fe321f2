// LanePause: what comes between one lane's iteration and its end: it is held between two nodes
// while a more urgent one runs in another lane (a pause), given up to be run again, or given up
// because its job is over. All of that before its commit phase only (lanes/run/executor.h).
//
// A pause is bounded: an iteration is held for at most kPauseFactor times what its graph's last one
// took, or kLeastPause if that is more, however many interrupt it; then it goes on beside them.
//
// Guarded by the worker's mutex where LW_REQUIRES says so; the rest belongs to whoever has set the
// lane's `busy`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/ids.h"
#include "base/time.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/jobs/open_turn.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/lanes/computing_share.h"
#include "service/worker/run/iteration.h"
#include "service/worker/run/worker_graph.h"
#include "service/worker/state/state_guard.h"

namespace laneway::service {

class LanePause {
 public:
  // All must outlive it; they are the lane's.
  LanePause(WorkerContext& context, LaneId lane, StateGuard& guard, OpenTurn& turn,
            ComputingShare& computing)
      : context_(context), lane_(lane), guard_(guard), turn_(turn), computing_(computing) {}

  // The word that the lane's executor tests.
  lanes::ControlWord& word() { return context_.preemption.word(lane_); }

  // The lane is busy from now on: nothing is asked of its work yet.
  void reset() LW_REQUIRES(kBookkeeping);
  // An iteration begins, and lanes that yield to this one pause. `usual`: what the graph's last one
  // took; 0: unknown. `may_be_abandoned`: it was not given up too often.
  void begin(Duration usual, bool may_be_abandoned) LW_REQUIRES(kBookkeeping);
  // A more urgent job waits for the lane: the iteration is given up if it would take longer than
  // that from now on, and may be.
  void hurry(Duration latest) LW_REQUIRES(kBookkeeping);
  // The work is over; and, when no more is ready at once, those lanes go on.
  void end(bool more_is_ready) LW_REQUIRES(kBookkeeping);
  // Those lanes go on: the lane has nothing to run.
  void rest() LW_REQUIRES(kBookkeeping) { context_.preemption.end_work(lane_); }

  // Of the iteration that has begun. `settle` is called before it is held: afterwards nothing of
  // the lane is in flight; false: it cannot be held, and is not asked to be any more.
  Interruption interruption(WorkerJob& job, const WorkerGraph& graph, std::function<bool()> settle);
  // How long the present iteration, or the last one, was held in all.
  Duration held_for() const { return held_for_; }

  // Whether an iteration is held now.
  bool is_paused() const LW_REQUIRES(kBookkeeping) { return paused_; }
  // The job is over: an iteration that is held is given up.
  void give_up_paused() LW_REQUIRES(kBookkeeping);

 private:
  // While kPause is set, by the thread that runs the iteration, outside of torch: blocks until it
  // may go on or must stop. The core, the supervisor and whoever counts cores know it meanwhile.
  // The mutex is not held. Requires: nothing of the lane is in flight.
  void hold(WorkerJob& job, const WorkerGraph& graph);
  // How long the iteration will still take, as far as is known.
  Duration left() const LW_REQUIRES(kBookkeeping);

  // Blocks; returns for how long.
  Duration wait(const WorkerJob& job, TurnId turn);

  WorkerContext& context_;
  const LaneId lane_;
  StateGuard& guard_;
  OpenTurn& turn_;             // with the mutex held
  ComputingShare& computing_;  // the same
  // Changed with the mutex held.
  Duration held_for_;
  bool expected_ = false;
  // Of the present iteration: since when it runs, what it usually takes, and how long it may be
  // held.
  TimePoint started_ LW_GUARDED_BY(kBookkeeping);
  Duration usual_ LW_GUARDED_BY(kBookkeeping);
  Duration longest_ LW_GUARDED_BY(kBookkeeping);
  bool iterating_ LW_GUARDED_BY(kBookkeeping) = false;
  bool may_be_abandoned_ LW_GUARDED_BY(kBookkeeping) = false;
  std::optional<Duration> hurried_
      LW_GUARDED_BY(kBookkeeping);  // the work that the lane is busy with
  bool paused_ LW_GUARDED_BY(kBookkeeping) = false;
};

}  // namespace laneway::service
