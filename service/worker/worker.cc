#include "service/worker/worker.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "service/api/job_form.h"
#include "service/worker/thread_team.h"

namespace laneway::service {
namespace {

// Iterations that take longer are left to the lane's thread, so that a caller who waits can hear
// something else meanwhile (Ctrl-C). The hand-over of some 50 us is a thousandth of that.
constexpr Duration kLongIteration = milliseconds(50);

Error job_is_over(const WorkerJob& job) LW_REQUIRES(kBookkeeping) {
  if (job.end_reason) return *job.end_reason;
  return Error{ErrorCode::unavailable,
               "job '" + job.name + "' was closed; make a new step to go on"};
}

}  // namespace

Worker::Worker(adaptor::Backend& backend, std::byte* pool, Bytes capacity, EventSink& events,
               const Clock& clock, Journal* journal)
    : backend_(backend),
      pool_(pool),
      capacity_(capacity),
      events_(events),
      clock_(clock),
      journal_(journal),
      plan_cache_(backend.alignment()) {}

Worker::~Worker() {
  MutexLock lock(mutex_);
  LW_CHECK(lanes_.empty() && retired_.empty(), "close_all comes before the worker's end");
}

JobHandle Worker::add_job(NewJob from) {
  auto job = std::make_shared<WorkerJob>(std::move(from));
  MutexLock lock(mutex_);
  if (closing_) return nullptr;
  many_users_ = many_users_ || (user_ && *user_ != job->user);
  user_ = job->user;
  jobs_[job->id] = job;
  return job;
}

JobHandle Worker::find_job(JobId id) {
  MutexLock lock(mutex_);
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second;
}

Result<uint32_t> Worker::add_graph(WorkerJob& job, std::span<const std::byte> graph,
                                   std::optional<uint32_t> wanted) {
  {
    // The job's torch side belongs to whoever runs. Announced, because a lane with work enough
    // would never leave a gap.
    MutexLock lock(mutex_);
    ++job.visitors;
    if (job.lane != nullptr) job.lane->retire_soon();
    while (job.running) job.changed.wait(mutex_);
    --job.visitors;
    if (Status open = check_open(job); !open) {
      if (job.lane != nullptr) job.lane->work_arrived();
      return open.error();
    }
    if (job.graphs.size() >= limits::kMaxGraphsPerJob) {
      if (job.lane != nullptr) job.lane->work_arrived();
      return Error{ErrorCode::refused, "job '" + job.name + "' has " +
                                           std::to_string(job.graphs.size()) +
                                           " graphs, which is the limit; drop one of them first"};
    }
    job.running = true;
  }
  auto made = job.torch->make_graph(graph, room_beside_image(job));
  std::optional<uint32_t> number;
  lanes::NeedChanged changed{.job = job.id, .ephemeral = Bytes()};
  {
    MutexLock lock(mutex_);
    job.running = false;
    job.changed.notify_all();
    if (job.lane != nullptr) job.lane->work_arrived();
    if (made) {
      number = job.add(std::move(made).value(), wanted);
      changed.ephemeral = job.need();
    }
  }
  if (!number) return made.error();
  events_.post(changed);
  return *number;
}

Status Worker::drop_graph(WorkerJob& job, uint32_t number) {
  GraphHandle dropped;  // destroyed without the mutex
  lanes::NeedChanged changed{.job = job.id, .ephemeral = Bytes()};
  {
    MutexLock lock(mutex_);
    if (Status open = check_open(job); !open) return open;
    const auto found = job.graphs.find(number);
    if (found == job.graphs.end()) return no_such_graph(job.name, number);
    if (job.graphs.size() == 1) {
      return Error{ErrorCode::refused, "graph " + std::to_string(number) + " is the last of job '" +
                                           job.name + "': close the job instead"};
    }
    dropped = std::move(found->second);
    job.graphs.erase(found);
    changed.ephemeral = job.need();
  }
  events_.post(changed);
  return {};
}

Result<GraphHandle> Worker::find_graph(WorkerJob& job, uint32_t number) {
  MutexLock lock(mutex_);
  const auto found = job.graphs.find(number);
  if (found == job.graphs.end()) return no_such_graph(job.name, number);
  return found->second;
}

std::optional<Status> Worker::try_run(WorkerJob& job, WorkerGraph& graph,
                                      std::span<const lanes::InputView> inputs,
                                      std::span<const lanes::OutputView> outputs) {
  WorkerLane* lane = nullptr;
  {
    MutexLock lock(mutex_);
    if (Status open = check_open(job); !open) return open;
    lane = job.lane;
    if (lane == nullptr || !lane->can_run_now(job)) return std::nullopt;
    if (graph.plan.last_took > kLongIteration) return std::nullopt;
    // What does not fit the lane yet (a graph that was added later) waits for it to grow.
    if (graph.plan.need > lane->size_) return std::nullopt;
    lane->busy_ = true;
    job.running = true;
  }
  const TimePoint start = clock_.now();
  IterationResult result = lane->run(graph, inputs, outputs);
  retire(result);
  lane->check_device(result, job, graph);
  learn(result, plan_cache_);
  const Duration took = clock_.now() - start;
  WorkerLane::Outcome outcome;
  {
    MutexLock lock(mutex_);
    outcome = lane->finish(job, graph, std::move(result), took);
    if (lane->has_next() || lane->to_be_given_back()) lane->work_arrived();
  }
  if (outcome.ended) {
    events_.post(*outcome.ended);
    if (outcome.ended->end == lanes::TurnEnd::failed) tell_of_lost_jobs();
  }
  if (outcome.again) return std::nullopt;
  return std::move(outcome.status);
}

Status Worker::submit(const JobHandle& job, std::shared_ptr<Work> work) {
  if (shares_process_ && work->is_iteration() && work->graph()->uses_team()) {
    end_callers_team(clock_);
  }
  bool announce = false;
  {
    MutexLock lock(mutex_);
    if (Status open = check_open(*job); !open) return open;
    if (job->queue.size() >= limits::kMaxInFlight) {
      return Error{ErrorCode::busy, "job '" + job->name + "' has " +
                                        std::to_string(job->queue.size()) +
                                        " iterations in flight, which is the limit; wait for "
                                        "one of them"};
    }
    job->queue.push_back(std::move(work));
    if (job->lane != nullptr) {
      job->lane->work_arrived();
    } else {
      announce = true;
    }
  }
  if (announce) events_.post(lanes::WorkReady{.job = job->id});
  return {};
}

std::optional<Status> Worker::wait_for_room(WorkerJob& job, Duration timeout) {
  const bool unlimited = timeout.ns() < 0;
  const TimePoint until = unlimited ? TimePoint::never() : clock_.now() + timeout;
  MutexLock lock(mutex_);
  while (true) {
    if (Status open = check_open(job); !open) return open;
    if (job.queue.size() < limits::kMaxInFlight) return Status();
    if (unlimited) {
      job.changed.wait(mutex_);
    } else if (const Duration left = until - clock_.now(); left.ns() > 0) {
      job.changed.wait_for(mutex_, left);
    } else {
      return std::nullopt;
    }
  }
}

bool Worker::cancel(WorkerJob& job, const std::shared_ptr<Work>& work) {
  {
    MutexLock lock(mutex_);
    const auto found = std::find(job.queue.begin(), job.queue.end(), work);
    if (found == job.queue.end()) return false;
    job.queue.erase(found);
  }
  work->complete(Error{ErrorCode::cancelled, "it was cancelled before it ran"});
  return true;
}

Status Worker::access_state(const JobHandle& job, const std::shared_ptr<Work>& work) {
  bool at_once = false;
  {
    MutexLock lock(mutex_);
    // Before it is placed only short things hold a job, and its queue may wait for long.
    while (job->phase == WorkerJob::Phase::waiting && job->running) job->changed.wait(mutex_);
    if (Status open = check_open(*job); !open) return open;
    at_once = job->queue.empty() && !job->running;
    if (at_once) job->running = true;
  }
  if (!at_once) return submit(job, work);
  work->complete(access_now(*job, *work));
  {
    MutexLock lock(mutex_);
    job->running = false;
    job->changed.notify_all();
    if (job->lane != nullptr) job->lane->work_arrived();
    if (!device_error_) return {};
  }
  tell_of_lost_jobs();
  return {};
}

std::optional<Status> Worker::wait_placed(WorkerJob& job, Duration timeout) {
  const bool unlimited = timeout.ns() < 0 || timeout > kLongestWait;
  const TimePoint until = unlimited ? TimePoint::never() : clock_.now() + timeout;
  MutexLock lock(mutex_);
  while (job.phase == WorkerJob::Phase::waiting) {
    if (unlimited) {
      job.changed.wait(mutex_);
      continue;
    }
    const Duration left = until - clock_.now();
    if (left.ns() <= 0) return std::nullopt;
    job.changed.wait_for(mutex_, left);
  }
  if (job.phase == WorkerJob::Phase::ended) return Status(job_is_over(job));
  return Status();
}

lanes::Reason Worker::waiting_reason(WorkerJob& job) {
  MutexLock lock(mutex_);
  return job.reason;
}

bool Worker::is_over(const WorkerJob& job) {
  MutexLock lock(mutex_);
  return !check_open(job);
}

std::vector<std::pair<GraphHandle, GraphPlan>> Worker::plans(WorkerJob& job) {
  MutexLock lock(mutex_);  // they change under it alone, whoever runs
  std::vector<std::pair<GraphHandle, GraphPlan>> plans;
  for (const auto& [number, graph] : job.graphs) plans.emplace_back(graph, graph->plan);
  return plans;
}

void Worker::join_retired() {
  std::vector<std::unique_ptr<WorkerLane>> retired;
  {
    // A lane whose own thread this is stays where close_all finds it: nobody else may believe that
    // it was joined while its thread is still here.
    MutexLock lock(mutex_);
    const auto others = std::partition(retired_.begin(), retired_.end(),
                                       [](const auto& lane) { return lane->on_own_thread(); });
    std::move(others, retired_.end(), std::back_inserter(retired));
    retired_.erase(others, retired_.end());
  }
  for (auto& lane : retired) lane->join();
}

bool Worker::may_replay(const WorkerJob& job) const {
  const Replay replay = job.offer.options.replay;
  if (replay != Replay::automatic) return replay == Replay::on;
  return std::none_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) LW_REQUIRES(kBookkeeping) {
    const WorkerJob& other = *entry.second;
    return &other != &job && other.admitted == job.admitted &&
           other.phase == WorkerJob::Phase::placed;
  });
}

Bytes Worker::room_beside_image(const WorkerJob& job) const {
  return capacity_ - std::max(job.torch->layout().total(), Bytes(backend_.alignment()));
}

Status Worker::check_open(const WorkerJob& job) const {
  if (job.closing || job.phase == WorkerJob::Phase::ended) return job_is_over(job);
  return {};
}

WorkerJob* Worker::find(JobId id) {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second.get();
}

WorkerLane* Worker::lane_of_region(RegionId id) {
  for (auto& [lane_id, lane] : lanes_) {
    if (lane->region() == id) return lane.get();
  }
  return nullptr;
}

}  // namespace laneway::service
