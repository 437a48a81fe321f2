#include "service/worker/worker.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "service/api/job_form.h"
#include "service/worker/common/thread_team.h"
#include "service/worker/jobs/job_lane.h"
#include "service/worker/jobs/plan_sharing.h"
#include "service/worker/state/job_snapshot.h"

namespace laneway::service {
namespace {

// Iterations that take longer are left to the lane's thread, so that a caller who waits can hear
// something else meanwhile (Ctrl-C). The hand-over of some 50 us is a thousandth of that.
constexpr Duration kLongIteration = milliseconds(50);

}  // namespace

Worker::Worker(adaptor::Backend& backend, std::byte* pool, Bytes capacity, EventSink& events,
               const Clock& clock, Journal* journal, RecoveryMemory* recovery)
    : context_{.backend = backend,
               .pool = pool,
               .capacity = capacity,
               .events = events,
               .clock = clock,
               .journal = journal,
               .recovery = recovery},
      watcher_(context_.mutex, [this](const JobHandle& job) { links_.attend(job); }),
      jobs_(context_, watcher_),
      device_(context_, jobs_),
      links_(context_, jobs_, watcher_, device_),
      lanes_(context_, *this),
      trials_(lanes_),
      recovery_(context_, jobs_, lanes_, watcher_),
      copies_(context_, jobs_, device_, [this](const JobHandle& job) { links_.attend(job); }),
      actions_(context_, jobs_, lanes_, watcher_, copies_) {}

void Worker::close_all() {
  jobs_.close_all();
  lanes_.close_all();
  copies_.stop();
  actions_.stop();
  watcher_.stop();
}

void Worker::recover() {
  for (const JobHandle& job : recovery_.recover()) links_.attend(job);
}

// The job's torch side belongs to whoever runs. Announced, because a lane with work enough would
// never leave a gap.
Status Worker::wait_for_idle(WorkerJob& job) {
  const BookkeepingLock lock(context_.mutex);
  ++job.visitors;
  if (job.lane != nullptr) job.lane->retire_soon();
  while (job.running || job.is_arriving()) context_.mutex.wait(job.changed);
  --job.visitors;
  if (Status open = job.check_open(); !open) {
    if (job.lane != nullptr) job.lane->work_arrived();
    return open;
  }
  job.running = true;
  return {};
}

Status Worker::forget_iterations(WorkerJob& job) {
  {
    const BookkeepingLock lock(context_.mutex);
    if (job.guard.choice.method != RecoveryMethod::snapshot) return {};
  }
  if (Status waited = wait_for_idle(job); !waited) return waited;
  const Status renewed = renew_snapshot(context_, job);
  if (!renewed) keep_nothing(context_, job, renewed.error().message);
  const BookkeepingLock lock(context_.mutex);
  end_visit(job);
  return {};
}

void Worker::end_visit(WorkerJob& job) {
  job.running = false;
  job.changed.notify_all();
  if (job.lane != nullptr) job.lane->work_arrived();
}

Result<uint32_t> Worker::add_graph(WorkerJob& job, std::span<const std::byte> graph,
                                   std::optional<uint32_t> wanted,
                                   std::optional<GraphCache::Graph> prepared) {
  if (Status waited = wait_for_idle(job); !waited) return waited.error();
  {
    const BookkeepingLock lock(context_.mutex);
    if (job.graphs.size() >= limits::kMaxGraphsPerJob) {
      end_visit(job);
      return Error{ErrorCode::refused, "job '" + job.name + "' has " +
                                           std::to_string(job.graphs.size()) +
                                           " graphs, which is the limit; drop one of them first"};
    }
  }
  const Bytes room = context_.room_beside(job.torch->layout().total());
  Result<GraphCache::Graph> made =
      prepared ? *std::move(prepared) : context_.graphs->make_graph(*job.torch, graph, room);
  std::optional<uint32_t> number;
  lanes::NeedChanged changed{.job = job.id, .ephemeral = Bytes()};
  {
    const BookkeepingLock lock(context_.mutex);
    end_visit(job);
    if (made) {
      number = job.add(std::move(made.value().made), std::move(made.value().origin), wanted);
      changed.ephemeral = job.need();
    }
  }
  if (!number) return made.error();
  context_.events.post(changed);
  return *number;
}

Status Worker::drop_graph(WorkerJob& job, uint32_t number) {
  if (Status ready = forget_iterations(job); !ready) return ready;
  GraphHandle dropped;  // destroyed without the mutex
  lanes::NeedChanged changed{.job = job.id, .ephemeral = Bytes()};
  {
    const BookkeepingLock lock(context_.mutex);
    if (Status open = job.check_open(); !open) return open;
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
  context_.kept_plans.drop(job.id, *dropped);
  context_.events.post(changed);
  return {};
}

Result<GraphHandle> Worker::find_graph(WorkerJob& job, uint32_t number) {
  const BookkeepingLock lock(context_.mutex);
  const auto found = job.graphs.find(number);
  if (found == job.graphs.end()) return no_such_graph(job.name, number);
  return found->second;
}

std::optional<Status> Worker::try_run(WorkerJob& job, WorkerGraph& graph,
                                      std::span<const lanes::InputView> inputs,
                                      std::span<const lanes::OutputView> outputs) {
  JobLane* lane = nullptr;
  const bool may_run = !graph.uses_team() || caller_can_have_team();
  {
    const BookkeepingLock lock(context_.mutex);
    if (Status open = job.check_open(); !open) return open;
    if (!may_run) return std::nullopt;
    if (graph.plan.last_took > kLongIteration) return std::nullopt;
    lane = job.lane;
    if (lane == nullptr || !lane->begin_now(job, graph)) return std::nullopt;
  }
  return lane->run_now(job, graph, inputs, outputs);
}

Status Worker::submit(const JobHandle& job, std::shared_ptr<Work> work) {
  if (context_.shares_process && work->is_iteration() && work->graph()->uses_team()) {
    end_callers_team(context_.clock);
  }
  bool announce = false;
  {
    const BookkeepingLock lock(context_.mutex);
    if (Status open = job->check_open(); !open) return open;
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
  if (announce) context_.events.post(lanes::WorkReady{.job = job->id});
  return {};
}

std::optional<Status> Worker::wait_for_room(WorkerJob& job, Duration timeout) {
  const bool unlimited = timeout.ns() < 0;
  const TimePoint until = unlimited ? TimePoint::never() : context_.clock.now() + timeout;
  const BookkeepingLock lock(context_.mutex);
  while (true) {
    if (Status open = job.check_open(); !open) return open;
    if (job.queue.size() < limits::kMaxInFlight) return Status();
    if (unlimited) {
      context_.mutex.wait(job.changed);
    } else if (const Duration left = until - context_.clock.now(); left.ns() > 0) {
      context_.mutex.wait_for(job.changed, left);
    } else {
      return std::nullopt;
    }
  }
}

void Worker::learn(const WorkerJob& job, WorkerGraph& graph, IterationResult& result) {
  service::learn(result, context_.plans);
  context_.kept_plans.keep(job.id, graph, result);
  share_plan(context_, jobs_, job, graph, result);
  share_time(context_, jobs_, job, graph);
}

void Worker::tell_turn_ended(const lanes::TurnEnded& ended) {
  context_.events.post(ended);
  if (ended.end == lanes::TurnEnd::failed) device_.tell_of_lost_jobs();
}

bool Worker::cancel(WorkerJob& job, const std::shared_ptr<Work>& work) {
  {
    const BookkeepingLock lock(context_.mutex);
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
    const BookkeepingLock lock(context_.mutex);
    // Before it is placed only short things hold a job, and its queue may wait for long.
    while (job->phase == WorkerJob::Phase::waiting && job->running) {
      context_.mutex.wait(job->changed);
    }
    if (Status open = job->check_open(); !open) return open;
    at_once = job->queue.empty() && !job->running &&
              job->is_accessible(work->writes_state(), context_.outside);
    if (at_once) job->running = true;
  }
  if (!at_once) return submit(job, work);
  if (work->writes_state()) outdate_copy(context_, *job);
  work->complete(device_.access_state(*job, *work));
  {
    const BookkeepingLock lock(context_.mutex);
    job->running = false;
    job->changed.notify_all();
    if (job->lane != nullptr) job->lane->work_arrived();
    if (!device_.has_failed()) return {};
  }
  device_.tell_of_lost_jobs();
  return {};
}

std::optional<Status> Worker::wait_placed(WorkerJob& job, Duration timeout) {
  const bool unlimited = timeout.ns() < 0 || timeout > kLongestWait;
  const TimePoint until = unlimited ? TimePoint::never() : context_.clock.now() + timeout;
  const BookkeepingLock lock(context_.mutex);
  while (job.phase == WorkerJob::Phase::waiting) {
    if (unlimited) {
      context_.mutex.wait(job.changed);
      continue;
    }
    const Duration left = until - context_.clock.now();
    if (left.ns() <= 0) return std::nullopt;
    context_.mutex.wait_for(job.changed, left);
  }
  if (job.phase == WorkerJob::Phase::ended) return Status(job.closed());
  return Status();
}

lanes::Reason Worker::waiting_reason(WorkerJob& job) {
  const BookkeepingLock lock(context_.mutex);
  return job.reason;
}

Status Worker::want_residency(WorkerJob& job, lanes::Residency wanted) {
  {
    const BookkeepingLock lock(context_.mutex);
    if (Status open = job.check_open(); !open) return open;
    if (wanted == lanes::Residency::unload && !context_.outside.exist()) {
      return Error{ErrorCode::unsupported,
                   "there is no room for images outside of the pool: start the service with "
                   "--staging SIZE or --spill DIR:SIZE (an embedded one with staging= or spill=)"};
    }
    const bool pins = wanted == lanes::Residency::pin;
    if (job.journal && (pins || wanted == lanes::Residency::unpin)) job.journal->pin(pins);
  }
  context_.events.post(lanes::ResidencyWanted{.job = job.id, .wanted = wanted});
  return {};
}

bool Worker::is_over(const WorkerJob& job) {
  const BookkeepingLock lock(context_.mutex);
  return !job.check_open();
}

std::vector<std::pair<GraphHandle, GraphPlan>> Worker::plans(WorkerJob& job) {
  const BookkeepingLock lock(context_.mutex);  // they change under it alone, whoever runs
  for (const uint64_t answered = job.answered; job.booked < answered;) {
    context_.mutex.wait(job.changed);
  }
  std::vector<std::pair<GraphHandle, GraphPlan>> plans;
  for (const auto& [number, graph] : job.graphs) plans.emplace_back(graph, graph->plan);
  return plans;
}

RecoveryReport Worker::recovery(WorkerJob& job) {
  RecoveryReport report;
  {
    const BookkeepingLock lock(context_.mutex);
    report.choice = job.guard.choice;
    report.missing = job.guard.missing;
  }
  if (context_.recovery == nullptr || !job.journal) {
    report.choice.method = RecoveryMethod::none;
    report.missing = job.journal ? "there is no recovery memory"
                                 : "a job in the user's own process ends with it";
    return report;
  }
  for (const PieceKey& key : context_.recovery->keys()) {
    if (key.kind == PieceKind::undo_log || key.owner != job.id.value()) continue;
    report.bytes += Bytes(static_cast<int64_t>(context_.recovery->find(key).size()));
  }
  return report;
}

Bytes Worker::need(const WorkerJob& job) {
  const BookkeepingLock lock(context_.mutex);
  return job.need();
}

}  // namespace laneway::service
