// WorkerLane: one lane: its arena over its region, its thread, and the turn that is open in it. The
// thread runs queued work of the turn's job; a client's thread may run an iteration itself through
// Worker::try_run. Turns end at iteration boundaries: when recalled, when the budget is used up,
// after an iteration that taught something about memory, and when one does not fit. While a turn is
// open whose job has links, and nothing is to be done, the thread waits on an EventPoll for their
// requests and for what else may wake it: one hop from a client to the executor. Jobs without links
// (embedded mode) pay nothing for that.
//
// Where the device runs behind, iterations of the turn are left in flight and the next one begins:
// the lane stays busy and the job running, until all have retired, which they do in their order.
// They have before the turn ends, before anything else is done with the job, and, of jobs with a
// journal, before the next iteration writes to the job's state.
//
// The worker's mutex guards everything below the line; the arena, the device's lane and what is
// in flight belong to whoever has set `busy`.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "adaptor/device/device_lane.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "lanes/event.h"
#include "lanes/turn.h"
#include "memory/lane_arena.h"
#include "service/transport/adaptive_spin.h"
#include "service/wire/iteration_note.h"
#include "service/worker/bookkeeping.h"
#include "service/worker/event_poll.h"
#include "service/worker/iteration.h"
#include "service/worker/worker_job.h"

namespace laneway::service {

class Worker;

class WorkerLane {
 public:
  // `device` may be an error: then each job that gets a turn ends with it.
  WorkerLane(Worker& worker, LaneId id, Result<std::unique_ptr<adaptor::DeviceLane>> device);
  ~WorkerLane();  // the thread has been stopped and joined
  WorkerLane(const WorkerLane&) = delete;
  WorkerLane& operator=(const WorkerLane&) = delete;

  LaneId id() const { return id_; }

  // All of these with the worker's mutex held.
  void set_region(RegionId region, std::byte* base, Bytes size) LW_REQUIRES(kBookkeeping);
  RegionId region() const LW_REQUIRES(kBookkeeping) { return region_; }
  void grant(const lanes::Turn& turn, std::shared_ptr<WorkerJob> job) LW_REQUIRES(kBookkeeping);
  // True when the turn ended at once; then `ended` is the report to post.
  bool recall(TurnId turn, lanes::TurnEnded& ended) LW_REQUIRES(kBookkeeping);
  // Something that the thread may have waited for is there: work, or the end of what ran.
  void work_arrived() LW_REQUIRES(kBookkeeping);
  // Somebody waits for the job: what is in flight is retired now.
  void retire_soon() LW_REQUIRES(kBookkeeping) {
    if (has_enqueued_) work_arrived();
  }
  // A link joined or leaves the job whose turn is open.
  void link_added(const Link& link) LW_REQUIRES(kBookkeeping);
  void link_dropped(const Link& link) LW_REQUIRES(kBookkeeping);
  void stop() LW_REQUIRES(kBookkeeping);
  bool can_run_now(const WorkerJob& job) const LW_REQUIRES(kBookkeeping);

  bool on_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  // Without the mutex, not from the lane's own thread.
  void join() { thread_.join(); }

 private:
  friend class Worker;
  using MutexLock = BookkeepingLock;

  // What a piece of work did to the turn.
  struct Outcome {
    Status status;
    bool again = false;     // did not fit the lane: to be run again after it has grown
    bool enqueued = false;  // the answer comes when it has retired
    std::optional<lanes::TurnEnded> ended;
  };

  class Commit;

  // Lets go of the mutex and takes it again, as do the three below that say so: more than the
  // analysis can follow.
  void thread_main() LW_NO_THREAD_SAFETY_ANALYSIS;
  // Mutex not held; `busy` and `running` set by the caller, cleared by finish.
  IterationResult run(WorkerGraph& graph, std::span<const lanes::InputView> inputs,
                      std::span<const lanes::OutputView> outputs, CommitEntry* commit = nullptr);
  // The device failed for good in the iteration: so it has, and everybody is told.
  void check_device(IterationResult& result, WorkerJob& job, const WorkerGraph& graph);
  void note_iteration(const WorkerJob& job, const WorkerGraph& graph, TimePoint start,
                      Duration took, wire::IterationOutcome outcome);
  // Mutex held: nothing of the lane or the job is under way any more.
  void end_work(WorkerJob& job) LW_REQUIRES(kBookkeeping);
  // Mutex held: takes the result into the books; the job is not running afterwards.
  Outcome finish(WorkerJob& job, WorkerGraph& graph, IterationResult result, Duration took)
      LW_REQUIRES(kBookkeeping);
  lanes::TurnEnded end_turn(lanes::TurnEnd why) LW_REQUIRES(kBookkeeping);
  bool budget_used() const LW_REQUIRES(kBookkeeping);
  // A turn with a bound and nothing to run is given back: somebody waits for the lane.
  bool to_be_given_back() const LW_REQUIRES(kBookkeeping);
  // What thread_main waits for.
  bool has_next() const LW_REQUIRES(kBookkeeping);
  // The turn of a suspect: it is next, when it has work.
  void seek_trial() LW_REQUIRES(kBookkeeping);
  // Waits for work_arrived or a request of a link, at most so long; there may be nothing then.
  void wait_for_work(std::optional<Duration> most = {})
      LW_REQUIRES(kBookkeeping) LW_NO_THREAD_SAFETY_ANALYSIS;
  // Mutex held, and let go of meanwhile. wait_for_work, until the lane's thread has kept OpenMP
  // threads for long enough without use: then ends them.
  void rest_while_idle() LW_REQUIRES(kBookkeeping) LW_NO_THREAD_SAFETY_ANALYSIS;
  // Mutex held, and released meanwhile. Spins until a link has a request or work_arrived is called;
  // whether the caller must look again before it sleeps.
  bool spin_for_work() LW_REQUIRES(kBookkeeping) LW_NO_THREAD_SAFETY_ANALYSIS;
  // Mutex held. The lane begins work that computes with so many threads; end_work ends that.
  void begin_computing(uint32_t threads) LW_REQUIRES(kBookkeeping);
  // What does not fit to what was in the region: zeros in their place.
  void clear_region(WorkerJob& job);
  void run_work(const std::shared_ptr<WorkerJob>& job, std::shared_ptr<Work> work);
  Outcome run_access(WorkerJob& job, Work& work);
  Outcome run_iteration_work(WorkerJob& job, const std::shared_ptr<Work>& work);
  // Mutex held: work that taught nothing is done, or all that was in flight has retired.
  Outcome finish_unrun(WorkerJob& job) LW_REQUIRES(kBookkeeping);

  // --- what is in flight (worker_lane_enqueued.cc); mutex not held unless said
  // --------------------
  struct InTheAir {
    std::shared_ptr<Work> work;
    GraphHandle graph;
    std::unique_ptr<lanes::EnqueuedIteration> enqueued;
    TimePoint start;
  };
  // An iteration whose nodes are enqueued: into the books, its answer comes later.
  Outcome enqueue(WorkerJob& job, std::shared_ptr<Work> work, GraphHandle graph,
                  IterationResult result, TimePoint start);
  // Waits for the oldest and gives its answer.
  void retire_oldest(WorkerJob& job);
  void retire_all(WorkerJob& job);
  // So that one more may be enqueued.
  void make_room_to_enqueue(WorkerJob& job);
  // Mutex held. Whether all must be retired before anything else.
  bool must_retire() const LW_REQUIRES(kBookkeeping);
  // Mutex held, and let go of meanwhile. Nothing is to be begun now: waits until something has
  // retired, or there is something to do.
  void rest_while_enqueued() LW_REQUIRES(kBookkeeping) LW_NO_THREAD_SAFETY_ANALYSIS;
  // Mutex held, and let go of meanwhile. Lands all, and ends what has to end then.
  void settle() LW_REQUIRES(kBookkeeping) LW_NO_THREAD_SAFETY_ANALYSIS;

  Worker& worker_;
  const LaneId id_;
  const Result<std::unique_ptr<adaptor::DeviceLane>> device_;
  memory::LaneArena arena_;
  std::deque<InTheAir> air_;  // oldest first
  TimePoint last_retirement_;
  // When an iteration of the lane last used OpenMP threads; empty when the lane's thread keeps
  // none.
  std::optional<TimePoint> team_used_ LW_GUARDED_BY(kBookkeeping);
  std::optional<Error>
      crash_;  // of an enqueued iteration in this turn, or of the device: the job is over

  // --- changed with the mutex held and never while `busy`: to read them, either is enough -------
  std::byte* base_ = nullptr;
  Bytes size_;
  bool replay_ = false;  // iterations of this turn may be replayed

  // --- guarded by the worker's mutex -----------------------------------------------------------
  RegionId region_ LW_GUARDED_BY(kBookkeeping);
  std::optional<lanes::Turn> turn_ LW_GUARDED_BY(kBookkeeping);
  std::shared_ptr<WorkerJob> job_ LW_GUARDED_BY(kBookkeeping);  // the turn's
  bool recalled_ LW_GUARDED_BY(kBookkeeping) = false;
  bool busy_ LW_GUARDED_BY(kBookkeeping) = false;
  bool has_enqueued_ LW_GUARDED_BY(kBookkeeping) = false;  // busy, with iterations in flight
  bool turn_over_ LW_GUARDED_BY(kBookkeeping) = false;     // as soon as all have retired
  bool stopping_ LW_GUARDED_BY(kBookkeeping) = false;
  uint64_t turn_iterations_ LW_GUARDED_BY(kBookkeeping) = 0;
  Duration turn_busy_ LW_GUARDED_BY(kBookkeeping);
  TimePoint turn_start_ LW_GUARDED_BY(kBookkeeping);
  std::optional<uint32_t> last_user_
      LW_GUARDED_BY(kBookkeeping);  // whose bytes are in the region; none: anybody's
  bool clear_first_ LW_GUARDED_BY(kBookkeeping) =
      false;  // they are none of the turn's job's business
  CondVar wake_;
  std::unique_ptr<EventPoll> poll_;                   // made for the first job with links
  bool polling_ LW_GUARDED_BY(kBookkeeping) = false;  // the thread waits in it
  uint32_t threads_ LW_GUARDED_BY(kBookkeeping) = 0;  // that the lane computes with now
  std::atomic<uint64_t> arrivals_{0};  // calls of work_arrived: written with the mutex held

  // The thread's own.
  AdaptiveSpin spin_;
  std::vector<std::shared_ptr<Link>> watched_;  // by spin_for_work

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace laneway::service
