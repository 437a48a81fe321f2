// Worker: carries out what the core decides, over one pool: places images, opens lanes, runs turns.
// One thread a lane; a synchronous iteration may also run on the client's own thread when its job
// holds the lane's turn and nothing is queued. Used in the user's process by embedded mode, and by
// the worker process of the service.
//
// Thread-safe. One mutex guards all bookkeeping (held for well under a microsecond at a time, never
// while an iteration runs or an event is posted); what runs is protected by the flags
// WorkerJob::running and WorkerLane::busy.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/result.h"
#include "lanes/action.h"
#include "lanes/core_loop.h"
#include "lanes/event.h"
#include "memory/planned_tape.h"
#include "service/worker/plan_cache.h"
#include "service/worker/worker_job.h"
#include "service/worker/worker_lane.h"

namespace laneway::service {

// Where the worker's reports go. Thread-safe; may carry actions out before it returns.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void post(lanes::Event event) = 0;
};

using JobHandle = std::shared_ptr<WorkerJob>;

class Worker final : public lanes::ActionSink {
 public:
  // `pool` is memory of `capacity` bytes, the core's; pool, events and clock outlive the worker.
  Worker(std::byte* pool, Bytes capacity, EventSink& events, const Clock& clock);
  ~Worker() override;

  // Called by the core's loop alone.
  void carry_out(const std::vector<lanes::Action>& actions) override;

  // Makes the job known; the caller then posts JobOffered. `initial` has the image's layout.
  // Nothing once close_all began.
  JobHandle add_job(JobId id, std::string name, adaptor::TorchJob::Made torch,
                    std::vector<std::byte> initial);
  // out_of_memory, with the arithmetic and nothing changed, when the graph could never run beside
  // the job's image in this pool.
  Result<uint32_t> add_graph(WorkerJob& job, std::span<const std::byte> graph);
  // What is queued for it still runs; nothing further is taken. invalid_argument when there is none
  // of that number, refused when it is the job's last.
  Status drop_graph(WorkerJob& job, uint32_t number);
  // invalid_argument when there is none of that number (any more).
  Result<GraphHandle> find_graph(WorkerJob& job, uint32_t number);

  // Runs one iteration on this thread if the lane is idle, the job's turn is open and the iteration
  // known to be short. Otherwise
  // nothing happened, and submit is the way. Outputs as large as the graph's.
  std::optional<Status> try_run(WorkerJob& job, WorkerGraph& graph,
                                std::span<const lanes::InputView> inputs,
                                std::span<const lanes::OutputView> outputs);
  // Queues; refused when kMaxInFlight are queued already, or the job is over.
  Status submit(const JobHandle& job, std::shared_ptr<Work> work);
  // Takes back what is queued and has not begun: it then is complete, as cancelled. False
  // otherwise.
  bool cancel(WorkerJob& job, const std::shared_ptr<Work>& work);
  // Runs an ordered access to the state: at once if nothing is queued or running before it (then
  // the work is complete on return), else queues it.
  Status access_state(const JobHandle& job, const std::shared_ptr<Work>& work);

  // Waits until the job has its memory, is over (its error), or the time passed (nothing).
  std::optional<Status> wait_placed(WorkerJob& job, Duration timeout);
  lanes::Reason waiting_reason(WorkerJob& job);
  // Closed, being closed, or failed: no further work is taken.
  bool is_over(const WorkerJob& job);
  // No further work, what is queued is cancelled, a running iteration ends first. Posts JobEnded
  // and waits until the job's memory is given back; one that has none yet is over at once, and what
  // the core may just be giving it comes back by itself.
  void close_job(const JobHandle& job);
  // The same for all jobs, and joins the threads of the lanes. Actions that come later do nothing.
  void close_all();

  // The job's graphs, by number, each with a copy of what is known of its memory.
  std::vector<std::pair<GraphHandle, GraphPlan>> plans(WorkerJob& job);

 private:
  friend class WorkerLane;

  void perform(const lanes::AdmitJob& action);
  void perform(const lanes::QueueJob& action);
  void perform(const lanes::RefuseJob& action);
  void perform(const lanes::PlaceImage& action);
  void perform(const lanes::DropImage& action);
  void perform(const lanes::OpenRegion& action);
  void perform(const lanes::ResizeRegion& action);
  void perform(const lanes::CloseRegion& action);
  void perform(const lanes::GrantTurn& action);
  void perform(const lanes::RecallTurn& action);

  WorkerJob* find(JobId id) LW_REQUIRES(mutex_);
  WorkerLane* lane_of_region(RegionId id) LW_REQUIRES(mutex_);
  Status check_open(const WorkerJob& job) const LW_REQUIRES(mutex_);
  // What a lane can have at most beside this job's image.
  Bytes room_beside_image(const WorkerJob& job) const;
  void end_job(WorkerJob& job, Error reason) LW_REQUIRES(mutex_);
  void join_retired();

  std::byte* const pool_;
  const Bytes capacity_;
  EventSink& events_;
  const Clock& clock_;
  PlanCache plan_cache_;

  Mutex mutex_;
  bool closing_ LW_GUARDED_BY(mutex_) = false;  // close_all began: no new jobs
  bool closed_ LW_GUARDED_BY(mutex_) = false;   // all jobs have ended: no new lanes
  std::map<JobId, JobHandle> jobs_ LW_GUARDED_BY(mutex_);
  std::map<LaneId, std::unique_ptr<WorkerLane>> lanes_ LW_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<WorkerLane>> retired_ LW_GUARDED_BY(mutex_);  // threads to be joined
};

}  // namespace laneway::service
