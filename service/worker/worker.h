// Worker: carries out what the core decides, over one pool: places images, opens lanes, runs turns.
// One thread a lane; a synchronous iteration may also run on the client's own thread when its job
// holds the lane's turn and nothing is queued. Used in the user's process by embedded mode, and by
// the worker process of the service.
//
// Thread-safe. One mutex guards all bookkeeping (held for well under a microsecond at a time, never
// while an iteration runs or an event is posted); what runs is protected by the flags
// WorkerJob::running and WorkerLane::busy.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "adaptor/device/backend.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/result.h"
#include "lanes/action.h"
#include "lanes/core_loop.h"
#include "lanes/event.h"
#include "lanes/report.h"
#include "memory/planned_tape.h"
#include "service/journal/journal.h"
#include "service/worker/bookkeeping.h"
#include "service/worker/event_poll.h"
#include "service/worker/iteration_observer.h"
#include "service/worker/plan_cache.h"
#include "service/worker/worker_job.h"
#include "service/worker/worker_lane.h"

namespace laneway::service {

// Where the worker's reports go. Thread-safe; may carry actions out before it returns.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void post(lanes::Event event) = 0;
  // The job has ended and has no memory any more; `why`, unless somebody wanted it to end. For
  // owners that do not wait for that.
  virtual void job_gone(JobId /*job*/, const std::optional<Error>& /*why*/) {}
  // The device failed for good, which the journal knows of; `why` of each job that ends with it.
  // Whoever has a successor leaves now. Called while something runs.
  virtual void device_lost(const std::vector<std::pair<JobId, Error>>& /*why*/) {}
};

using JobHandle = std::shared_ptr<WorkerJob>;

class Worker final : public lanes::ActionSink {
 public:
  // `pool` is memory of the backend's of `capacity` bytes, the core's; all of these outlive the
  // worker. Where regions are is written into `journal`, unless there is none.
  Worker(adaptor::Backend& backend, std::byte* pool, Bytes capacity, EventSink& events,
         const Clock& clock, Journal* journal = nullptr);
  ~Worker() override;
  // Hears of what lanes run from queues and rings; outlives the worker. Set before there is a job.
  void set_iteration_observer(IterationObserver* observer) { iterations_ = observer; }
  // The user's own threads compute in this process too (embedded mode): no thread keeps OpenMP
  // threads while another one computes (thread_team.h). Called before there is a job.
  void share_process() { shares_process_ = true; }

  // Called by the core's loop alone.
  void carry_out(const std::vector<lanes::Action>& actions) override;

  // Makes the job known; the caller then posts JobOffered. Nothing once close_all began.
  JobHandle add_job(NewJob job);
  // The job of that id, unless it is over.
  JobHandle find_job(JobId id);
  // out_of_memory, with the arithmetic and nothing changed, when the graph could never run beside
  // the job's image in this pool. `number`: the one that it had before a restart.
  Result<uint32_t> add_graph(WorkerJob& job, std::span<const std::byte> graph,
                             std::optional<uint32_t> number = {});
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
  // Queues; busy when kMaxInFlight are queued already, else the reason why the job is over.
  Status submit(const JobHandle& job, std::shared_ptr<Work> work);
  // Success when fewer than kMaxInFlight are queued, or the reason why the job is over; nothing
  // when `timeout` passed (negative: no limit).
  std::optional<Status> wait_for_room(WorkerJob& job, Duration timeout);
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
  // device_lost once the device failed: nothing runs on it any more.
  Status device_status();
  // No further work, what is queued is cancelled, a running iteration ends first. Posts JobEnded
  // and waits until the job's memory is given back; one that has none yet is over at once, and what
  // the core may just be giving it comes back by itself.
  void close_job(const JobHandle& job);
  // The same without the waits: job_gone tells of the end. The job's links are told `reason`.
  void begin_close(const JobHandle& job, const Error& reason);
  // The same for all jobs, and joins the threads of the lanes. Actions that come later do nothing.
  void close_all();

  // Another process submits to the job through `ring`, from where it stands. unavailable when the
  // job is over (the ring is told), refused when it has limits::kMaxLinksPerJob.
  Status add_link(const JobHandle& job, uint32_t link, std::unique_ptr<RingServer> ring);
  bool has_link(const WorkerJob& job, uint32_t link);
  // Nothing further is taken from it. What runs of it ends first, unwaited for.
  void drop_link(const JobHandle& job, uint32_t link);
  // Memory of the client's in which blocks of the link's requests lie. refused when it has
  // limits::kMaxSegmentsPerLink.
  Status add_segment(WorkerJob& job, uint32_t link, uint32_t segment, memory::SharedMemory memory);
  void drop_segment(WorkerJob& job, uint32_t link, uint32_t segment);

  // Nothing of a predecessor is in the pool: images that it placed are lost. Before recover.
  void pool_is_new() { pool_is_new_ = true; }
  // After a predecessor's death, when all jobs, graphs, links and segments are known again: images
  // are bound where they lie, lanes opened, and what the journal says of each job is done.
  void recover();
  // Everything that a new core must know. Nobody carries actions out meanwhile.
  lanes::WorkerReport report();

  // What a lane must have for the job.
  Bytes need(const WorkerJob& job);
  // The job's graphs, by number, each with a copy of what is known of its memory.
  std::vector<std::pair<GraphHandle, GraphPlan>> plans(WorkerJob& job);

 private:
  friend class WorkerLane;
  using MutexLock = BookkeepingLock;  // in these classes mutex_ is taken by no other

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

  // Its image could not be written.
  void drop_unplaced(const JobHandle& job, const Error& why);

  WorkerJob* find(JobId id) LW_REQUIRES(kBookkeeping);
  WorkerLane* lane_of_region(RegionId id) LW_REQUIRES(kBookkeeping);
  Status check_open(const WorkerJob& job) const LW_REQUIRES(kBookkeeping);
  // What the work does to the job's state, now; by whoever has set `running`. Of device_lost the
  // worker knows already.
  Status access_now(WorkerJob& job, Work& work);
  // The device failed for good while the job ran that graph ("": its bytes were copied). All
  // jobs that cannot go on end; the error is the job's. Called with flags set, hence the core is
  // told later, by tell_of_lost_jobs, when none is.
  Error device_failed(const Error& what, WorkerJob& job, const std::string& graph);
  void tell_of_lost_jobs();
  // With a journal: who is to blame is left to a successor, unless one job alone ran a graph.
  void leave_to_successor(const std::string& told, WorkerJob& reporter, bool ran_graph)
      LW_REQUIRES(kBookkeeping);
  // Jobs that were at work on a device when it failed are tried again one at a time, with nobody
  // else at work: who was it fails alone. Whether the lane may begin the next work of its job.
  bool may_begin(const WorkerLane& lane) const LW_REQUIRES(kBookkeeping);
  // Nobody begins anything before the suspect has been at work.
  void begin_trial(const WorkerJob& job) LW_REQUIRES(kBookkeeping);
  // Nor is it at work any more.
  void end_trial(const WorkerJob& job) LW_REQUIRES(kBookkeeping);
  // What a lane can have at most beside this job's image.
  Bytes room_beside_image(const WorkerJob& job) const;
  // Whether the device's work of its iterations may be replayed as a whole: what is replayed runs
  // to its end, so that a job that shares its lane does it only when asked to.
  bool may_replay(const WorkerJob& job) const LW_REQUIRES(kBookkeeping);
  void end_job(WorkerJob& job, Error reason) LW_REQUIRES(kBookkeeping);
  // Work that was queued and will not run; where the answers go is told outside of the mutex.
  using Cancelled = std::deque<std::shared_ptr<Work>>;
  // Nothing further of the job runs. True when the core has to be told.
  bool stop_job(WorkerJob& job, Cancelled& cancelled) LW_REQUIRES(mutex_, kBookkeeping);
  void join_retired();

  // The links of a job without a turn are looked after by the watcher. watch_links: true when one
  // has a request already, and nothing is watched.
  bool watch_links(WorkerJob& job) LW_REQUIRES(kBookkeeping);
  void unwatch_links(WorkerJob& job) LW_REQUIRES(kBookkeeping);
  void run_watcher();
  // Requests may have come: tells the core, or does what needs no turn.
  void attend_links(const JobHandle& job);

  void recover_lanes() LW_REQUIRES(kBookkeeping);
  void recover_job(WorkerJob& job) LW_REQUIRES(kBookkeeping);
  void recover_link(WorkerJob& job, Link& link) LW_REQUIRES(kBookkeeping);
  void fail_job(WorkerJob& job, Error reason) LW_REQUIRES(kBookkeeping);

  adaptor::Backend& backend_;
  std::byte* const pool_;
  const Bytes capacity_;
  EventSink& events_;
  const Clock& clock_;
  Journal* const journal_;
  bool pool_is_new_ = false;
  IterationObserver* iterations_ = nullptr;  // none: no trace is written
  bool shares_process_ = false;              // with the user's own threads
  PlanCache plan_cache_;

  Mutex mutex_;
  bool closing_ LW_GUARDED_BY(kBookkeeping) = false;  // close_all began: no new jobs
  bool closed_ LW_GUARDED_BY(kBookkeeping) = false;   // all jobs have ended: no new lanes
  std::optional<Error> device_error_ LW_GUARDED_BY(kBookkeeping);  // it failed for good
  std::vector<JobHandle> lost_jobs_
      LW_GUARDED_BY(kBookkeeping);  // by it, and the core is to be told
  const WorkerJob* tried_ LW_GUARDED_BY(kBookkeeping) = nullptr;  // the suspect whose trial it is
  std::map<JobId, JobHandle> jobs_ LW_GUARDED_BY(kBookkeeping);
  std::map<LaneId, std::unique_ptr<WorkerLane>> lanes_ LW_GUARDED_BY(kBookkeeping);
  std::vector<std::unique_ptr<WorkerLane>> retired_
      LW_GUARDED_BY(kBookkeeping);  // threads to be joined
  // Jobs of several users have been here: regions are cleared between them.
  bool many_users_ LW_GUARDED_BY(kBookkeeping) = false;
  std::optional<uint32_t> user_ LW_GUARDED_BY(kBookkeeping);
  // Threads that the work in progress of all lanes computes with.
  uint32_t computing_threads_ LW_GUARDED_BY(kBookkeeping) = 0;
  TurnId last_turn_ LW_GUARDED_BY(kBookkeeping);
  RegionId last_region_ LW_GUARDED_BY(kBookkeeping);
  uint64_t last_link_ LW_GUARDED_BY(kBookkeeping) = 0;
  std::map<uint64_t, std::weak_ptr<WorkerJob>> link_jobs_
      LW_GUARDED_BY(kBookkeeping);           // by Link::key
  std::unique_ptr<EventPoll> watcher_poll_;  // made for the first link, gone with the worker
  std::thread watcher_;
  bool watcher_stops_ LW_GUARDED_BY(kBookkeeping) = false;
};

}  // namespace laneway::service
