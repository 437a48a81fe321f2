// Worker: carries out what the core decides, over one pool, and does what clients ask of jobs. One
// thread a lane; a synchronous iteration may also run on the client's own thread when its job holds
// the lane's turn and nothing is queued. Used in the user's process by embedded mode, and by the
// worker process of the service.
//
// The worker puts its parts together: jobs, lanes, links, the device, trials, recovery, and the
// core's actions. Thread-safe. One mutex guards all bookkeeping of the parts (held for well under a
// microsecond at a time, never while an iteration runs or an event is posted); what runs is
// protected by the flags WorkerJob::running and `busy` of a lane.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adaptor/device/backend.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "lanes/core/core_loop.h"
#include "lanes/state/action.h"
#include "lanes/state/reason.h"
#include "lanes/state/report.h"
#include "service/journal/journal.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/common/event_sink.h"
#include "service/worker/common/iteration_observer.h"
#include "service/worker/core_actions.h"
#include "service/worker/images/image_copies.h"
#include "service/worker/job_links.h"
#include "service/worker/jobs/device_health.h"
#include "service/worker/jobs/link_watcher.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/jobs/worker_jobs.h"
#include "service/worker/lanes/lane_host.h"
#include "service/worker/lanes/suspect_trials.h"
#include "service/worker/lanes/worker_lanes.h"
#include "service/worker/recovery/blame.h"
#include "service/worker/recovery/worker_recovery.h"

namespace laneway::service {

class Worker final : public lanes::ActionSink, private LaneHost {
 public:
  // `pool` is memory of the backend's of `capacity` bytes, which the core decides about. All of
  // these must outlive the worker. The places of regions are written into `journal`, unless it is
  // null; what a successor needs beside it is kept in `recovery`, unless that is null. Requires:
  // close_all is called before the worker's end.
  Worker(adaptor::Backend& backend, std::byte* pool, Bytes capacity, EventSink& events,
         const Clock& clock, Journal* journal = nullptr, RecoveryMemory* recovery = nullptr);
  // The observer is told of what lanes run from queues and rings. It must outlive the worker.
  // Requires: there is no job yet.
  void set_iteration_observer(IterationObserver* observer) { context_.iterations = observer; }
  // No job gets these bytes of the pool. Requires: there is no job yet.
  void set_reserve(Bytes reserve) { context_.reserve = reserve; }
  // The graphs that were known before the worker was made. Requires: there is no job yet.
  void set_graphs(std::shared_ptr<GraphCache> graphs) { context_.graphs = std::move(graphs); }
  // From which the torch sides of jobs are made.
  GraphCache& graphs() { return *context_.graphs; }
  // What jobs can have of the pool.
  Bytes usable() const { return context_.usable(); }
  // The user's own threads compute in this process too (embedded mode): no thread keeps OpenMP
  // threads while another one computes (thread_team.h). Requires: there is no job yet.
  void share_process() { context_.shares_process = true; }

  // Called by the core's loop alone.
  void carry_out(const std::vector<lanes::Action>& actions) override {
    actions_.carry_out(actions);
  }

  // Makes the job known; the caller must post JobOffered then. Null once close_all began.
  JobHandle add_job(NewJob job) { return jobs_.add(std::move(job)); }
  // The job of that id, or null when it is over.
  JobHandle find_job(JobId id) { return jobs_.find(id); }
  // See WorkerJobs::why_over.
  std::optional<Error> why_over(JobId id) { return jobs_.why_over(id); }
  // out_of_memory, with the arithmetic and nothing changed, when the graph could never run beside
  // the job's image in this pool. `number`: the one that it had before a restart. `prepared`: the
  // same graph, made by the job's torch side already.
  Result<uint32_t> add_graph(WorkerJob& job, std::span<const std::byte> graph,
                             std::optional<uint32_t> number = {},
                             std::optional<GraphCache::Graph> prepared = {});
  // What is queued for it still runs; nothing further is taken. invalid_argument when there is none
  // of that number, refused when it is the job's last.
  Status drop_graph(WorkerJob& job, uint32_t number);
  // invalid_argument when there is none of that number (any more).
  Result<GraphHandle> find_graph(WorkerJob& job, uint32_t number);

  // Runs one iteration on this thread if the lane is idle, the job's turn is open and the iteration
  // is known to be short. Otherwise the result is nothing, nothing was done, and the caller must
  // submit. Requires: the outputs are as large as the graph's.
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
  // Tells the core what a client wants of where the job's image is. unsupported when it is to leave
  // and there is nowhere to go.
  Status want_residency(WorkerJob& job, lanes::Residency wanted);
  lanes::Reason waiting_reason(WorkerJob& job);
  // Closed, being closed, or failed: no further work is taken.
  bool is_over(const WorkerJob& job);
  // device_lost once the device failed: nothing runs on it any more.
  Status device_status() { return device_.status(); }
  // No further work, what is queued is cancelled, a running iteration ends first. Posts JobEnded
  // and waits until the job's memory is given back; one that has none yet is over at once, and what
  // the core may just be giving it comes back by itself.
  void close_job(const JobHandle& job) { jobs_.close(job); }
  // The same without the waits: job_gone tells of the end. The job's links are told `reason`.
  void begin_close(const JobHandle& job, const Error& reason) { jobs_.begin_close(job, reason); }
  // close_job for all jobs; joins the threads of the lanes and of copies, after which the worker
  // posts nothing. Actions that come later do nothing.
  void close_all();

  // How other processes submit to jobs.
  JobLinks& links() { return links_; }

  // What is done for every job, whatever it costs. Requires: there is no job yet.
  void want_recovery(const WantedRecovery& wanted) { context_.wanted_recovery = wanted; }
  // The pool is this process's own: nothing of a predecessor is in it. Requires: there is no job
  // yet.
  void own_pool() { context_.images_die_with_worker = true; }
  // Requires of both: there is no job yet. The rule says how much of an image that leaves should
  // stay; `outside`, where images can be that are not in the pool.
  void set_prefix_rule(const pipeline::PrefixRule& rule) { context_.prefix_rule = rule; }
  void set_outside(pipeline::OutsideImages outside) { context_.outside = std::move(outside); }
  // After a predecessor's death, when all jobs, graphs, links and segments are known again: images
  // are bound where they lie, lanes opened, and what the journal says of each job is done.
  void recover();
  // Everything that a new core must know. Moves of images inside the pool are given up first. No
  // actions may be carried out meanwhile.
  lanes::WorkerReport report() {
    copies_.stop_moves();
    return recovery_.report();
  }
  // A quarantined job is tried again, alone at first. Refused when it is not quarantined.
  Status release(const JobHandle& job) { return release_from_quarantine(context_, job); }

  // What a lane must have for the job.
  Bytes need(const WorkerJob& job);
  // The job's graphs, by number, each with a copy of what is known of its memory; what its client
  // was answered of is in it.
  std::vector<std::pair<GraphHandle, GraphPlan>> plans(WorkerJob& job);
  // How its state is kept recoverable.
  RecoveryReport recovery(WorkerJob& job);

 private:
  // The job is the caller's alone until end_visit; an error when it is over.
  Status wait_for_idle(WorkerJob& job);
  void end_visit(WorkerJob& job) LW_REQUIRES(kBookkeeping);
  // A graph goes: what its iterations since a snapshot did can not be done again without it.
  Status forget_iterations(WorkerJob& job);

  bool may_replay(const WorkerJob& job) const override LW_REQUIRES(kBookkeeping) {
    return jobs_.may_replay(job);
  }
  bool many_users() const override LW_REQUIRES(kBookkeeping) { return jobs_.many_users(); }
  bool watch_links(WorkerJob& job) override LW_REQUIRES(kBookkeeping) {
    return watcher_.watch(job);
  }
  void unwatch_links(WorkerJob& job) override LW_REQUIRES(kBookkeeping) { watcher_.unwatch(job); }
  bool may_begin(const WorkerLane& lane, const WorkerJob& job) const override
      LW_REQUIRES(kBookkeeping) {
    return trials_.may_begin(lane, job);
  }
  void seek_trial(const WorkerJob& suspect) override LW_REQUIRES(kBookkeeping) {
    trials_.seek(suspect);
  }
  void end_trial(const WorkerJob& job) override LW_REQUIRES(kBookkeeping) { trials_.end(job); }
  void work_ended(const WorkerJob& job) override LW_REQUIRES(kBookkeeping) {
    trials_.work_ended(job);
  }
  Error device_failed(const Error& what, WorkerJob& job, const std::string& graph) override {
    return device_.failed(what, job, graph);
  }
  std::optional<Error> device_error_behind(const Error& what, WorkerJob& job,
                                           const std::string& graph) override {
    return device_.error_behind(what, job, graph);
  }
  void tell_of_lost_jobs() override { device_.tell_of_lost_jobs(); }
  void learn(const WorkerJob& job, WorkerGraph& graph, IterationResult& result) override;
  void tell_turn_ended(const lanes::TurnEnded& ended) override;
  Status access_now(WorkerJob& job, Work& work) override { return device_.access_state(job, work); }

  WorkerContext context_;
  LinkWatcher watcher_;
  WorkerJobs jobs_;
  DeviceHealth device_;
  JobLinks links_;
  WorkerLanes lanes_;
  SuspectTrials trials_;
  WorkerRecovery recovery_;
  ImageCopies copies_;
  CoreActions actions_;
};

}  // namespace laneway::service
