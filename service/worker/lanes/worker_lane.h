// WorkerLane: one lane: its thread, and the turn that is open in it. The thread runs queued work of
// the turn's job; a client's thread may run an iteration itself (begin_now, run_now). Turns end at
// iteration boundaries: when recalled, when the budget is used up, after an iteration that taught
// something about memory, and when one does not fit. The parts: lane_executor.h runs, open_turn.h
// counts, enqueued_queue.h has what is in flight, lane_wait.h waits.
//
// Where the device runs behind, iterations are left in flight and the next one begins: lane and job
// stay busy until all have retired, in their order. They have before the turn ends, before anything
// else is done with the job, and, with a journal, before the next iteration writes its state.
//
// The worker's mutex guards everything below the line; the executor and what is in flight belong
// to whoever has set `busy`.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "adaptor/device/device_lane.h"
#include "base/ids.h"
#include "base/result.h"
#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "lanes/state/turn.h"
#include "service/wire/iteration_note.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/jobs/job_lane.h"
#include "service/worker/jobs/open_turn.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/lanes/computing_share.h"
#include "service/worker/lanes/enqueued_queue.h"
#include "service/worker/lanes/lane_host.h"
#include "service/worker/lanes/lane_pause.h"
#include "service/worker/lanes/lane_wait.h"
#include "service/worker/run/iteration.h"
#include "service/worker/run/lane_executor.h"
#include "service/worker/state/state_guard.h"

namespace laneway::service {

class WorkerLane final : public JobLane {
 public:
  // Both must outlive the lane. With an error for `device`, each job that gets a turn ends with it.
  WorkerLane(WorkerContext& context, LaneHost& host, LaneId id,
             Result<std::unique_ptr<adaptor::DeviceLane>> device);
  ~WorkerLane();  // the thread has been stopped and joined
  WorkerLane(const WorkerLane&) = delete;
  WorkerLane& operator=(const WorkerLane&) = delete;

  LaneId id() const { return id_; }

  // All of these with the worker's mutex held.
  // Requires: no turn is open and nobody is busy.
  void set_region(RegionId region, std::byte* base, Bytes size) LW_REQUIRES(kBookkeeping);
  RegionId region() const LW_REQUIRES(kBookkeeping) { return region_; }
  std::byte* base() const LW_REQUIRES(kBookkeeping) { return executor_.base(); }
  Bytes size() const LW_REQUIRES(kBookkeeping) { return executor_.size(); }
  // Requires: no turn is open. `job` is null when it is gone: the turn waits to be recalled.
  void grant(const lanes::Turn& turn, std::shared_ptr<WorkerJob> job) LW_REQUIRES(kBookkeeping);
  // True when the turn ended at once; then `ended` is the report to post.
  bool recall(const lanes::RecallTurn& asked, lanes::TurnEnded& ended) LW_REQUIRES(kBookkeeping);
  TurnId turn() const override LW_REQUIRES(kBookkeeping) { return turn_.id(); }
  bool is_busy() const override LW_REQUIRES(kBookkeeping) { return busy_; }
  bool is_paused() const override LW_REQUIRES(kBookkeeping) { return pause_.is_paused(); }
  void give_up_paused() override LW_REQUIRES(kBookkeeping) { pause_.give_up_paused(); }
  void work_arrived() override LW_REQUIRES(kBookkeeping) { wait_.arrived(); }
  void retire_soon() override LW_REQUIRES(kBookkeeping) {
    if (has_enqueued_) work_arrived();
  }
  void link_added(const Link& link) override LW_REQUIRES(kBookkeeping) { wait_.add(link); }
  void link_dropped(const Link& link) override LW_REQUIRES(kBookkeeping) { wait_.drop(link); }
  void stop() LW_REQUIRES(kBookkeeping);
  void close_region() LW_REQUIRES(kBookkeeping) { guard_.release_log(); }
  bool has_device() const { return executor_.has_device(); }

  bool begin_now(WorkerJob& job, const WorkerGraph& graph) override LW_REQUIRES(kBookkeeping);
  std::optional<Status> run_now(WorkerJob& job, WorkerGraph& graph,
                                std::span<const lanes::InputView> inputs,
                                std::span<const lanes::OutputView> outputs) override;

  // Without the mutex, not from the lane's own thread.
  void join() { thread_.join(); }

 private:
  // What a piece of work did to the turn.
  struct Outcome {
    Status status;
    bool again = false;     // to be run again: it did not fit the lane, or was abandoned
    bool enqueued = false;  // the answer comes when it has retired
    std::optional<lanes::TurnEnded> ended;
  };

  void thread_main();
  // Takes the next piece of work of the turn's job and does it.
  void run_next() LW_REQUIRES(kBookkeeping);
  // Of an iteration that this thread runs. Before it is held all that is in flight retires: whoever
  // is answered by that need not wait, and nothing of the lane is at work on the device when
  // somebody else's iteration fails there.
  Interruption interruption(WorkerJob& job, const WorkerGraph& graph);
  // A device that failed in the iteration ends the job.
  void check_device(IterationResult& result, WorkerJob& job, const WorkerGraph& graph);
  // Nothing of the lane or the job is under way any more.
  void end_work(WorkerJob& job) LW_REQUIRES(kBookkeeping);
  // Takes the result into the books; the job is not running afterwards.
  Outcome finish(WorkerJob& job, WorkerGraph& graph, IterationResult result, Duration took)
      LW_REQUIRES(kBookkeeping);
  lanes::TurnEnded end_turn(lanes::TurnEnd why) LW_REQUIRES(kBookkeeping);
  // A turn with a bound and nothing to run is given back: somebody waits for the lane.
  bool to_be_given_back() const LW_REQUIRES(kBookkeeping);
  bool has_next() const LW_REQUIRES(kBookkeeping);
  // Whether a request of a link could be taken now.
  bool could_take() const LW_REQUIRES(kBookkeeping);
  // Zeros in the place of another user's bytes.
  void clear_region(WorkerJob& job);
  void run_work(const std::shared_ptr<WorkerJob>& job, std::shared_ptr<Work> work);
  Outcome run_access(WorkerJob& job, Work& work);
  // The job's state, as a predecessor kept it.
  void run_restore() LW_REQUIRES(kBookkeeping);
  Outcome run_iteration_work(WorkerJob& job, const std::shared_ptr<Work>& work);
  // Work that taught nothing is done, or all that was in flight has retired.
  Outcome finish_unrun(WorkerJob& job) LW_REQUIRES(kBookkeeping);

  // --- what is in flight (worker_lane_enqueued.cc); mutex not held unless LW_REQUIRES says so ----
  // An iteration whose nodes are enqueued: into the books, its answer comes later.
  Outcome enqueue(WorkerJob& job, EnqueuedQueue::Entry entry, IterationResult& result);
  // Waits for the oldest and gives its answer.
  void retire_oldest(WorkerJob& job);
  void retire_all(WorkerJob& job);
  // So that one more may be enqueued.
  void make_room_to_enqueue(WorkerJob& job);
  // Whether all must be retired before anything else.
  bool must_retire() const LW_REQUIRES(kBookkeeping);
  // Waits for what retires or for something to do. Releases the mutex meanwhile, as does settle.
  void rest_while_enqueued() LW_REQUIRES(kBookkeeping);
  // Retires all, and ends what has to end then.
  void settle() LW_REQUIRES(kBookkeeping);

  WorkerContext& context_;
  LaneHost& host_;
  const LaneId id_;
  LaneExecutor executor_;
  StateGuard guard_;
  EnqueuedQueue enqueued_;
  // Of an enqueued iteration in this turn, or of the device: the job is over.
  std::optional<Error> crash_;

  // --- guarded by the worker's mutex -----------------------------------------------------------
  RegionId region_ LW_GUARDED_BY(kBookkeeping);
  OpenTurn turn_ LW_GUARDED_BY(kBookkeeping);
  std::shared_ptr<WorkerJob> job_ LW_GUARDED_BY(kBookkeeping);  // the turn's
  bool busy_ LW_GUARDED_BY(kBookkeeping) = false;
  bool has_enqueued_ LW_GUARDED_BY(kBookkeeping) = false;  // busy, with iterations in flight
  bool stopping_ LW_GUARDED_BY(kBookkeeping) = false;
  ComputingShare computing_ LW_GUARDED_BY(kBookkeeping);
  LanePause pause_;
  LaneWait wait_ LW_GUARDED_BY(kBookkeeping);

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace laneway::service
