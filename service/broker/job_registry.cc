// The registry's jobs: from the request that makes one to the worker's word that it is gone.
#include "service/broker/job_registry.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/fault_point.h"
#include "base/limits.h"
#include "base/log.h"
#include "lanes/wait_estimate.h"

namespace laneway::service {
namespace {

Status check_options(const JobOptions& options) {
  if (options.name.size() > limits::kMaxStringBytes) {
    return Error{ErrorCode::invalid_argument,
                 "the job's name has " + std::to_string(options.name.size()) + " bytes; at most " +
                     std::to_string(limits::kMaxStringBytes) + " are allowed"};
  }
  if (!std::isfinite(options.weight) || options.weight <= 0) {
    return Error{
        ErrorCode::invalid_argument,
        "the job's weight is " + std::to_string(options.weight) + "; it must be a number above 0"};
  }
  return {};
}

Error refusal(const lanes::Reason& reason) {
  const bool never = reason.code == lanes::ReasonCode::larger_than_pool;
  return Error{never ? ErrorCode::out_of_memory : ErrorCode::refused, lanes::reason_text(reason)};
}

}  // namespace

Error JobRegistry::gone_error(uint64_t job, const Origin& from) const {
  const JobTable::End* end = table_.end_of(JobId(job));
  if (end != nullptr && end->user == from.user && end->error) return *end->error;
  return Error{ErrorCode::invalid_argument,
               "job " + std::to_string(job) + " is not there (any more), or is not this session's"};
}

Result<JobEntry*> JobRegistry::job_of(const Origin& from, uint64_t id) {
  JobEntry* job = table_.find(JobId(id));
  if (job == nullptr) return gone_error(id, from);
  const SessionId session = from.to.session;
  const bool attached =
      std::any_of(job->links.begin(), job->links.end(),
                  [session](const auto& link) { return link.second.session == session; });
  if (job->owner() != session && !attached) return gone_error(id, from);
  return job;
}

Status JobRegistry::check_room(const Origin& from) const {
  if (closed_) return *closed_;
  if (table_.count_of(from.to.session) >= limits::kMaxJobsPerSession) {
    return Error{ErrorCode::refused, "this client has " +
                                         std::to_string(limits::kMaxJobsPerSession) +
                                         " jobs, which is the limit of one: close some first"};
  }
  if (!table_.free_record()) {
    return Error{ErrorCode::refused, "the service knows " + std::to_string(limits::kMaxJobs) +
                                         " jobs, which is its limit: try again when some ended"};
  }
  return {};
}

void JobRegistry::create(const Origin& from, const wire::CreateJob& request,
                         std::vector<Descriptor> fds) {
  if (JobEntry* made = table_.find_created(from.to.session, from.to.number)) {
    made->creator = from.to;
    return resume(*made, from);
  }
  const size_t wanted = request.spec.has_initial ? 2 : 1;
  if (fds.size() != wanted) {
    return replies_.fail(
        from.to, {ErrorCode::invalid_argument, "a job comes with " + std::to_string(wanted) +
                                                   " descriptors (graph, initial bytes); " +
                                                   std::to_string(fds.size()) + " came"});
  }
  if (Status valid = check_options(request.spec.options); !valid) {
    return replies_.fail(from.to, valid.error());
  }
  if (Status room = check_room(from); !room) return replies_.fail(from.to, room.error());
  const JobId id = table_.next_id();
  store_.hold_last_id(id);
  JobEntry entry;
  entry.record = {.job = id.value(),
                  .session = from.to.session.value(),
                  .request = from.to.number,
                  .user = from.user,
                  .record = *table_.free_record(),
                  .last_link = 0,
                  .first_graph_dropped = false,
                  .spec = request.spec};
  std::string& name = entry.record.spec.options.name;
  if (name.empty()) name = "job-" + std::to_string(id.value());
  GraphEntry graph;
  graph.graph = std::move(fds[0]);
  graph.session = from.to.session;
  entry.graphs.emplace(0, std::move(graph));
  if (request.spec.has_initial) entry.initial = std::move(fds[1]);
  entry.creator = from.to;
  JobEntry& job = *table_.add(std::move(entry)).value();
  store_.hold_job(job);
  fault_point("broker.job_held");
  if (const Result<uint32_t> link = make_link(job, from); !link) {
    return forget(job, link.error());
  }
  fault_point("broker.link_held");
  requests_.send_job(job);
  requests_.send_link(job, job.record.last_link);
  fault_point("broker.job_sent");
}

// Asked again. The broker before may have died before it held the link; then one is made now.
void JobRegistry::resume(JobEntry& job, const Origin& from) {
  const bool linked = std::any_of(job.links.begin(), job.links.end(), [&from](const auto& link) {
    return link.second.session == from.to.session && link.second.request == from.to.number;
  });
  if (!linked && !job.closing) {
    const Result<uint32_t> link = make_link(job, from);
    if (!link) return replies_.refuse(job.creator, link.error());
    requests_.send_link(job, link.value());
  }
  answer_created(job);
}

// As soon as worker and core both know it; or its refusal.
void JobRegistry::answer_created(JobEntry& job) {
  if (!job.creator) return;
  if (job.refused || job.closing) {
    return replies_.refuse(job.creator, job.refused ? *job.refused : *job.closing);
  }
  if (!job.added || !job.offered) return;
  const uint64_t request = job.record.request;
  for (auto& [number, link] : job.links) {
    if (link.session != job.owner() || link.request != request) continue;
    std::vector<Descriptor> fds = link_copies(link);
    replies_.answer(job.creator,
                    wire::JobCreated{.job = job.id().value(),
                                     .name = job.name(),
                                     .graph = *job.graphs.at(0).info,
                                     .link = number},
                    std::move(fds));
    fault_point("broker.job_replied");
    return;
  }
}

void JobRegistry::offer(JobEntry& job) {
  if (!core_->running() || !job.added || job.offered || job.closing) return;
  job.offered = true;
  core_->post(lanes::JobOffered{.job = job.id(),
                                .session = job.owner(),
                                .options = job.record.spec.options,
                                .iteration_estimate = Duration(),
                                .persistent = job.persistent,
                                .ephemeral = job.ephemeral,
                                .context_key = job.context_key});
  fault_point("broker.job_offered");
}

void JobRegistry::close(const Origin& from, const wire::CloseJob& request) {
  JobEntry* job = table_.find(JobId(request.job));
  if (job == nullptr) return replies_.send(from.to, wire::Done{});
  if (request.link != 0) return detach_link(*job, request.link, from.to);
  if (job->owner() != from.to.session) return detach(*job, from.to.session, from.to);
  if (std::find(job->closers.begin(), job->closers.end(), from.to) == job->closers.end()) {
    job->closers.push_back(from.to);
  }
  end_job(*job, {ErrorCode::cancelled, "job '" + job->name() + "' was closed by its client"},
          false);
}

void JobRegistry::kill(const Origin& from, const wire::KillJob& request, bool may_all) {
  std::vector<JobEntry*> named = table_.find_named(request.job);
  std::erase_if(named,
                [&](const JobEntry* job) { return !may_all && job->record.user != from.user; });
  if (named.empty()) {
    return replies_.fail(from.to, {ErrorCode::invalid_argument,
                                   "there is no job '" + request.job +
                                       "' that this user may end; `laneway jobs` lists them"});
  }
  if (named.size() > 1) {
    std::string ids;
    for (const JobEntry* job : named) ids += " " + std::to_string(job->id().value());
    return replies_.fail(from.to, {ErrorCode::refused, "several jobs are named '" + request.job +
                                                           "': give one of their ids:" + ids});
  }
  JobEntry& job = *named.front();
  if (std::find(job.closers.begin(), job.closers.end(), from.to) == job.closers.end()) {
    job.closers.push_back(from.to);
  }
  end_job(job, {ErrorCode::cancelled, "job '" + job.name() + "' was killed by an operator"}, true);
}

void JobRegistry::end_job(JobEntry& job, const Error& told, bool cancelled) {
  if (job.closing) return;
  job.closing = told;
  fault_point("broker.close_begun");
  requests_.send_close(job);
  core_->post(lanes::JobEnded{.job = job.id(), .cancelled = cancelled});
}

void JobRegistry::session_ended(SessionId session, bool died) {
  std::vector<JobId> all;
  for (const auto& [id, job] : table_.all()) all.push_back(id);
  for (const JobId id : all) {
    JobEntry* job = table_.find(id);
    if (job == nullptr) continue;
    if (job->owner() == session) {
      end_job(*job, {ErrorCode::cancelled, "the client of job '" + job->name() + "' is gone"},
              died);
    } else {
      detach(*job, session, {});
    }
  }
}

void JobRegistry::close_all(const Error& reason) {
  closed_ = reason;
  std::vector<JobId> all;
  for (const auto& [id, job] : table_.all()) all.push_back(id);
  for (const JobId id : all) {
    JobEntry& job = *table_.find(id);
    end_job(job, reason, true);
    if (worker_.up()) continue;
    for (const auto& [number, link] : job.links) link.files.close_ring(reason);
    forget(job, reason);
  }
}

// Nothing of it is left at the worker. That it is not held any more decides; whoever waits hears of
// it after that.
void JobRegistry::forget(JobEntry& job, std::optional<Error> why) {
  const JobId id = job.id();
  store_.release_job(job);
  requests_.forget_additions(id);
  if (!why) why = job.refused;
  const Error told = why ? *why : job.closing.value_or(gone_error(id.value(), {}));
  JobEntry gone = std::move(job);
  table_.erase(id, gone.record, told);
  answer_all(gone, told);
}

void JobRegistry::answer_all(JobEntry& job, const Error& told) {
  replies_.refuse(job.creator, told);
  for (const ReplyTo& closer : job.closers) replies_.send(closer, wire::Done{});
  for (const JobEntry::Waiter& waiter : job.waiters) replies_.fail(waiter.to, told);
  for (auto& [number, graph] : job.graphs) replies_.refuse(graph.reply, told);
  for (auto& [number, link] : job.links) {
    replies_.refuse(link.reply, told);
    for (auto& [segment, entry] : link.segments) replies_.refuse(entry.reply, told);
  }
  for (const WorkerRequests::Question& question : requests_.take_questions(job.id())) {
    // What was to be dropped is gone; what was asked has no answer any more.
    ReplyTo to = question.to;
    question.is_report() ? replies_.refuse(to, told) : replies_.answer(to, wire::Done{});
  }
}

void JobRegistry::image_placed(JobEntry& job) {
  if (job.placed) return;
  job.placed = true;
  if (job.initial.valid()) {
    // As many bytes as the image: nobody needs them any more.
    job.initial.reset();
    job.record.spec.has_initial = false;
    store_.hold_job(job);
  }
  for (const JobEntry::Waiter& waiter : job.waiters) replies_.send(waiter.to, wire::JobPlaced{});
  job.waiters.clear();
}

void JobRegistry::wait(const Origin& from, const wire::WaitJob& request) {
  const Result<JobEntry*> found = job_of(from, request.job);
  if (!found) return replies_.fail(from.to, found.error());
  JobEntry& job = *found.value();
  if (job.refused || job.closing) {
    return replies_.fail(from.to, job.refused ? *job.refused : *job.closing);
  }
  if (job.placed) return replies_.send(from.to, wire::JobPlaced{});
  const uint32_t ms = std::min(request.timeout_ms, limits::kMaxWaitMs);
  job.waiters.push_back({from.to, clock_.now() + milliseconds(ms)});
  answer_waiters();
}

wire::JobWaits JobRegistry::waits(const JobEntry& job) {
  const lanes::Reason& reason = job.reason;
  wire::JobWaits message{.position = reason.position,
                         .code = lanes::reason_code_name(reason.code),
                         .persistent = reason.persistent.count(),
                         .region = reason.region.count(),
                         .capacity = reason.capacity.count(),
                         .claimed = reason.claimed.count(),
                         .largest_free = reason.largest_free.count(),
                         .text = short_enough(lanes::reason_text(reason)),
                         .estimate_s = -1.0};
  if (!core_->running()) {
    message.text = "The service's worker is being started; the job waits for it.";
  } else if (reason.code == lanes::ReasonCode::none) {
    message.text = "The job has its memory; its image is being filled.";
  } else if (const auto estimate = lanes::estimate_wait(snapshot(), job.id())) {
    message.estimate_s = estimate->seconds();
  }
  return message;
}

lanes::Snapshot JobRegistry::snapshot() {
  lanes::Snapshot now = core_->snapshot();
  if (journal_ == nullptr) return now;
  for (lanes::JobStatus& status : now.jobs) {
    JobEntry* job = table_.find(status.id);
    if (job == nullptr) continue;
    const auto live = journal_->progress(job->record.record, status.id);
    // A worker that has just begun may not have opened the job's record yet.
    if (!live || live->iterations < status.iterations) continue;
    status.iterations = live->iterations;
    status.device_time = live->busy;
    job->pace.saw(clock_.now(), live->iterations);
    status.pace = job->pace.per_iteration();
  }
  return now;
}

void JobRegistry::answer_waiters() {
  const TimePoint now = clock_.now();
  for (auto& entry : table_.all()) {
    JobEntry& job = entry.second;
    if (job.waiters.empty()) continue;
    if (job.refused || job.closing) {
      const Error error = job.refused ? *job.refused : *job.closing;
      for (const JobEntry::Waiter& waiter : job.waiters) replies_.fail(waiter.to, error);
      job.waiters.clear();
      continue;
    }
    std::erase_if(job.waiters, [&](const JobEntry::Waiter& waiter) {
      if (waiter.until > now) return false;
      replies_.send(waiter.to, waits(job));
      return true;
    });
  }
}

TimePoint JobRegistry::next_wakeup() const {
  TimePoint next = TimePoint::never();
  for (const auto& [id, job] : table_.all()) {
    for (const JobEntry::Waiter& waiter : job.waiters) next = std::min(next, waiter.until);
  }
  return next;
}

void JobRegistry::carry_out(const std::vector<lanes::Action>& actions) {
  for (const lanes::Action& action : actions) {
    if (const auto* queue = std::get_if<lanes::QueueJob>(&action)) {
      if (JobEntry* job = table_.find(queue->job)) job->reason = queue->reason;
    } else if (const auto* admit = std::get_if<lanes::AdmitJob>(&action)) {
      if (JobEntry* job = table_.find(admit->job)) job->reason = {};
    } else if (const auto* refuse = std::get_if<lanes::RefuseJob>(&action)) {
      if (JobEntry* job = table_.find(refuse->job)) job->refused = refusal(refuse->reason);
    }
  }
  worker_.send(wire::to_worker::Actions{actions});
  fault_point("broker.actions_sent");
}

}  // namespace laneway::service
