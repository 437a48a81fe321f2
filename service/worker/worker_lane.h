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
// The worker's mutex guards everything below the line; the arena, the device's lane and what is in
// flight belong to whoever has set `busy`.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "adaptor/device/device_lane.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "lanes/event.h"
#include "lanes/turn.h"
#include "memory/lane_arena.h"
#include "service/wire/iteration_note.h"
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
  void set_region(RegionId region, std::byte* base, Bytes size);
  RegionId region() const { return region_; }
  void grant(const lanes::Turn& turn, std::shared_ptr<WorkerJob> job);
  // True when the turn ended at once; then `ended` is the report to post.
  bool recall(TurnId turn, lanes::TurnEnded& ended);
  // Something that the thread may have waited for is there: work, or the end of what ran.
  void work_arrived();
  // Somebody waits for the job: what is in flight is retired now.
  void retire_soon() {
    if (has_enqueued_) work_arrived();
  }
  // A link joined or leaves the job whose turn is open.
  void link_added(const Link& link);
  void link_dropped(const Link& link);
  void stop();
  bool can_run_now(const WorkerJob& job) const;

  bool on_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  // Without the mutex, not from the lane's own thread.
  void join() { thread_.join(); }

 private:
  friend class Worker;

  // What a piece of work did to the turn.
  struct Outcome {
    Status status;
    bool again = false;     // did not fit the lane: to be run again after it has grown
    bool enqueued = false;  // the answer comes when it has retired
    std::optional<lanes::TurnEnded> ended;
  };

  class Commit;

  void thread_main();
  // Mutex not held; `busy` and `running` set by the caller, cleared by finish.
  IterationResult run(WorkerGraph& graph, std::span<const lanes::InputView> inputs,
                      std::span<const lanes::OutputView> outputs, CommitEntry* commit = nullptr);
  // The device failed for good in the iteration: so it has, and everybody is told.
  void check_device(IterationResult& result, WorkerJob& job, const WorkerGraph& graph);
  void note_iteration(const WorkerJob& job, const WorkerGraph& graph, TimePoint start,
                      Duration took, wire::IterationOutcome outcome);
  // Mutex held: nothing of the lane or the job is under way any more.
  void end_work(WorkerJob& job);
  // Mutex held: takes the result into the books; the job is not running afterwards.
  Outcome finish(WorkerJob& job, WorkerGraph& graph, IterationResult result, Duration took);
  lanes::TurnEnded end_turn(lanes::TurnEnd why);
  bool budget_used() const;
  // A turn with a bound and nothing to run is given back: somebody waits for the lane.
  bool to_be_given_back() const;
  // What thread_main waits for.
  bool has_next() const;
  // The turn of a suspect: it is next, when it has work.
  void seek_trial();
  // Waits for work_arrived or a request of a link, at most so long; there may be nothing then.
  void wait_for_work(std::optional<Duration> most = {});
  // What does not fit to what was in the region: zeros in their place.
  void clear_region(WorkerJob& job);
  void run_work(const std::shared_ptr<WorkerJob>& job, std::shared_ptr<Work> work);
  Outcome run_access(WorkerJob& job, Work& work);
  Outcome run_iteration_work(WorkerJob& job, const std::shared_ptr<Work>& work);
  // Mutex held: work that taught nothing is done, or all that was in flight has retired.
  Outcome finish_unrun(WorkerJob& job);

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
  bool must_retire() const;
  // Mutex held, and let go of meanwhile. Nothing is to be begun now: waits until something has
  // retired, or there is something to do.
  void rest_while_enqueued();
  // Mutex held, and let go of meanwhile. Lands all, and ends what has to end then.
  void settle();

  Worker& worker_;
  const LaneId id_;
  const Result<std::unique_ptr<adaptor::DeviceLane>> device_;
  memory::LaneArena arena_;
  std::deque<InTheAir> air_;  // oldest first
  TimePoint last_retirement_;
  std::optional<Error> crash_;  // of an enqueued iteration in this turn, or of the device: the job is over

  // --- guarded by the worker's mutex -----------------------------------------------------------
  RegionId region_;
  std::byte* base_ = nullptr;
  Bytes size_;
  std::optional<lanes::Turn> turn_;
  std::shared_ptr<WorkerJob> job_;  // the turn's
  bool recalled_ = false;
  bool replay_ = false;  // iterations of this turn may be replayed
  bool busy_ = false;
  bool has_enqueued_ = false;  // busy, with iterations in flight
  bool turn_over_ = false;     // as soon as all have retired
  bool stopping_ = false;
  uint64_t turn_iterations_ = 0;
  Duration turn_busy_;
  TimePoint turn_start_;
  std::optional<uint32_t> last_user_;  // whose bytes are in the region; none: anybody's
  bool clear_first_ = false;           // they are none of the turn's job's business
  CondVar wake_;
  std::unique_ptr<EventPoll> poll_;  // made for the first job with links
  bool polling_ = false;             // the thread waits in it

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace laneway::service
