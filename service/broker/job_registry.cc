#include "service/broker/job_registry.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "base/fault_point.h"
#include "base/limits.h"
#include "service/broker/job_shares.h"
#include "service/broker/limits.h"
#include "service/wire/limits.h"

namespace laneway::service {
namespace {

Error refusal(const lanes::Reason& reason) {
  const bool never = reason.code == lanes::ReasonCode::larger_than_pool;
  return Error{never ? ErrorCode::out_of_memory : ErrorCode::refused, lanes::reason_text(reason)};
}

}  // namespace

JobRegistry::JobRegistry(DescriptorStore& store, WorkerLink& worker, Replies& replies,
                         Quotas& quotas, const Clock& clock)
    : clock_(clock),
      store_(store),
      worker_(worker),
      requests_(worker, table_),
      replies_(replies),
      quotas_(quotas),
      standbys_(table_),
      parts_(table_, store_, requests_, replies, standbys_, quotas),
      progress_(table_, clock),
      waits_(table_, progress_, replies, clock),
      reader_({.worker = worker,
               .requests = requests_,
               .table = table_,
               .parts = parts_,
               .progress = progress_,
               .replies = replies,
               .events = *this}) {}

void JobRegistry::set_core(BrokerCore& core) {
  core_ = &core;
  progress_.set_core(core);
}

void JobRegistry::create(const Requester& from, const wire::CreateJob& request,
                         std::vector<Descriptor> fds) {
  if (JobEntry* made = table_.find_created(from.to.session, from.to.number)) {
    made->creator = from.to;
    return resume(*made, from);
  }
  const size_t wanted = request.spec.descriptors();
  if (fds.size() != wanted) {
    return replies_.fail(
        from.to, {ErrorCode::invalid_argument, "a job comes with " + std::to_string(wanted) +
                                                   " descriptors (graph, initial bytes, files); " +
                                                   std::to_string(fds.size()) + " came"});
  }
  if (Status valid = check_job_options(request.spec.options); !valid) {
    return replies_.fail(from.to, valid.error());
  }
  if (Status valid = check_torch_version_text(request.torch_version); !valid) {
    return replies_.fail(from.to, valid.error());
  }
  if (Status valid = check_weight_files(request.spec.slots, request.spec.weights); !valid) {
    return replies_.fail(from.to, valid.error());
  }
  if (Status valid = check_slot_names(request.spec.slots); !valid) {
    return replies_.fail(from.to, valid.error());
  }
  if (closed_) return replies_.fail(from.to, *closed_);
  if (Status few = check_session(table_, from.to.session); !few) {
    return replies_.fail(from.to, few.error());
  }
  const JobId id = table_.next_id();
  JobEntry entry;
  entry.record = {.job = id.value(),
                  .session = from.to.session.value(),
                  .request = from.to.number,
                  .user = from.user,
                  .record = table_.free_record().value_or(limits::kMaxJobs),
                  .last_link = 0,
                  .first_graph_dropped = false,
                  .offered_ns = clock_.now().ns(),
                  .spec = request.spec,
                  .torch_version = request.torch_version};
  std::string& name = entry.record.spec.options.name;
  if (name.empty()) name = "job-" + std::to_string(id.value());
  GraphEntry graph;
  graph.graph = std::move(fds[0]);
  graph.session = from.to.session;
  entry.graphs.emplace(0, std::move(graph));
  if (Status room = take_shares(quotas_, entry); !room) return replies_.fail(from.to, room.error());
  store_.hold_last_id(id);
  entry.take_first_bytes(std::move(fds));
  entry.creator = from.to;
  JobEntry& job = *table_.add(std::move(entry)).value();
  if (Status held = store_.hold_job(job); !held) return forget(job, held.error());
  fault_point("broker.job_held");
  if (const Result<uint32_t> link = parts_.make_link(job, from); !link) {
    return forget(job, link.error());
  }
  fault_point("broker.link_held");
  requests_.send_job(job);
  requests_.send_link(job, job.record.last_link);
  fault_point("broker.job_sent");
}

// Asked again. The broker before may have died before it held the link; then one is made now.
void JobRegistry::resume(JobEntry& job, const Requester& from) {
  const bool linked = std::any_of(job.links.begin(), job.links.end(), [&from](const auto& link) {
    return link.second.session == from.to.session && link.second.request == from.to.number;
  });
  if (!linked && !job.closing) {
    const Result<uint32_t> link = parts_.make_link(job, from);
    if (!link) return replies_.refuse(job.creator, link.error());
    requests_.send_link(job, link.value());
  }
  parts_.answer_created(job);
}

void JobRegistry::offer(JobEntry& job) {
  if (!core_->running() || !job.added || job.offered || job.closing) return;
  job.offered = true;
  core_->post(lanes::JobOffered{.job = job.id(),
                                .session = job.owner(),
                                .options = job.record.spec.options,
                                .offered_at = job.offered_at(),
                                .iteration_estimate = job.iteration_estimate,
                                .persistent = job.persistent,
                                .ephemeral = job.ephemeral,
                                .context_key = job.context_key});
  fault_point("broker.job_offered");
}

void JobRegistry::close(const Requester& from, const wire::CloseJob& request) {
  JobEntry* job = table_.find(JobId(request.job));
  if (job == nullptr) return replies_.send(from.to, wire::Done{});
  if (request.link != 0) return parts_.drop_link(*job, request.link, from.to);
  if (job->owner() != from.to.session) return parts_.detach(*job, from.to.session, from.to);
  if (std::find(job->closers.begin(), job->closers.end(), from.to) == job->closers.end()) {
    job->closers.push_back(from.to);
  }
  end_job(*job, {ErrorCode::cancelled, "job '" + job->name() + "' was closed by its client"},
          false);
}

Result<JobEntry*> JobRegistry::find_named(const Requester& from, const std::string& name,
                                          bool may_all, const char* act) {
  std::vector<JobEntry*> named = table_.find_named(name);
  std::erase_if(named,
                [&](const JobEntry* job) { return !may_all && job->record.user != from.user; });
  if (named.empty()) {
    return Error{ErrorCode::invalid_argument, "there is no job '" + name + "' that this user may " +
                                                  act + "; `laneway jobs` lists them"};
  }
  if (named.size() == 1) return named.front();
  std::string ids;
  for (const JobEntry* job : named) ids += " " + std::to_string(job->id().value());
  return Error{ErrorCode::refused,
               "several jobs are named '" + name + "': give one of their ids:" + ids};
}

void JobRegistry::release(const Requester& from, const wire::ReleaseJob& request, bool may_all) {
  const Result<JobEntry*> found = find_named(from, request.job, may_all, "release");
  if (!found) return replies_.fail(from.to, found.error());
  wire::to_worker::ReleaseJob message;
  message.job = found.value()->id().value();
  requests_.ask({.to = from.to, .job = found.value()->id(), .graph = 0, .message = message});
}

void JobRegistry::set_residency(const Requester& from, const wire::SetResidency& request,
                                bool may_all) {
  const Result<JobEntry*> found =
      find_named(from, request.job, may_all, lanes::residency_name(request.wanted));
  if (!found) return replies_.fail(from.to, found.error());
  wire::to_worker::SetResidency message;
  message.job = found.value()->id().value();
  message.wanted = request.wanted;
  requests_.ask({.to = from.to, .job = found.value()->id(), .graph = 0, .message = message});
}

void JobRegistry::set(const Requester& from, const wire::SetJob& request, bool may_all) {
  const Result<JobEntry*> found = find_named(from, request.job, may_all, "set options of");
  if (!found) return replies_.fail(from.to, found.error());
  if (Status right = check_job_changes(request.changes); !right) {
    return replies_.fail(from.to, right.error());
  }
  JobEntry& job = *found.value();
  JobOptions& options = job.record.spec.options;
  const JobOptions before = options;
  request.changes.apply_to(options);
  if (options == before) return replies_.send(from.to, wire::Done{});
  store_.note_job(job);
  // A core that does not know the job yet is offered what the record says.
  if (job.offered) core_->post(lanes::JobChanged{.job = job.id(), .changes = request.changes});
  replies_.send(from.to, wire::Done{});
}

void JobRegistry::kill(const Requester& from, const wire::KillJob& request, bool may_all) {
  const Result<JobEntry*> found = find_named(from, request.job, may_all, "end");
  if (!found) return replies_.fail(from.to, found.error());
  JobEntry& job = *found.value();
  if (std::find(job.closers.begin(), job.closers.end(), from.to) == job.closers.end()) {
    job.closers.push_back(from.to);
  }
  end_job(job, {ErrorCode::cancelled, "job '" + job.name() + "' was killed by an operator"}, true);
}

void JobRegistry::end_job(JobEntry& job, const Error& reason, bool cancelled) {
  if (job.closing) return;
  job.closing = reason;
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
      parts_.detach(*job, session, {});
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

// Nothing of it is left at the worker. The job is released first: it is gone when it is not held
// any more, and clients that wait are answered after that.
void JobRegistry::forget(JobEntry& job, std::optional<Error> why) {
  const JobId id = job.id();
  store_.release_job(job);
  requests_.forget_additions(id);
  if (!why) why = job.refused;
  const Error reason = why ? *why : job.closing.value_or(unknown_job(id));
  JobEntry gone = std::move(job);
  table_.erase(id, gone.record, reason);
  standbys_.job_gone(id);
  answer_all(gone, reason);
}

void JobRegistry::answer_all(JobEntry& job, const Error& reason) {
  replies_.refuse(job.creator, reason);
  for (const ReplyTo& closer : job.closers) replies_.send(closer, wire::Done{});
  waits_.on_end(job.id(), reason);
  for (auto& [number, graph] : job.graphs) replies_.refuse(graph.reply, reason);
  for (auto& [number, link] : job.links) {
    replies_.refuse(link.reply, reason);
    for (auto& [segment, entry] : link.segments) replies_.refuse(entry.reply, reason);
  }
  for (const WorkerRequests::Question& question : requests_.take_questions(job.id())) {
    // What was to be dropped is gone; what was asked has no answer any more.
    ReplyTo to = question.to;
    question.drops() ? replies_.answer(to, wire::Done{}) : replies_.refuse(to, reason);
  }
}

void JobRegistry::image_placed(JobEntry& job) {
  if (job.placed) return;
  job.placed = true;
  standbys_.image_placed();
  if (job.initial.valid() || !job.files.empty()) {
    // As many bytes as the image: nobody needs them any more.
    job.initial.reset();
    job.files.clear();
    job.first_bytes = {};
    job.record.spec.has_initial = false;
    job.record.spec.weights = {};
    store_.note_job(job);
  }
  waits_.on_placed(job.id());
}

void JobRegistry::wait(const Requester& from, const wire::WaitJob& request) {
  const Result<JobEntry*> found = table_.find_for(from, JobId(request.job));
  if (!found) return replies_.fail(from.to, found.error());
  JobEntry& job = *found.value();
  if (job.refused || job.closing) {
    return replies_.fail(from.to, job.refused ? *job.refused : *job.closing);
  }
  if (job.placed) return replies_.send(from.to, wire::JobPlaced{});
  const uint32_t ms = std::min(request.timeout_ms, limits::kMaxWaitMs);
  waits_.add(job.id(), from.to, milliseconds(ms));
  answer_waiters();
}

void JobRegistry::answer_waiters() { waits_.answer_due(core_->running()); }

void JobRegistry::report(const Requester& from, const wire::JobReport& request, bool may_all) {
  Result<JobEntry*> found = table_.find_for(from, JobId(request.job));
  JobEntry* const job = table_.find(JobId(request.job));
  if (job != nullptr && (may_all || job->record.user == from.user)) found = job;
  if (!found) return replies_.fail(from.to, found.error());
  wire::to_worker::JobReport question;
  question.job = request.job;
  question.with_tapes = request.with_tapes;
  requests_.ask({.to = from.to, .job = found.value()->id(), .graph = 0, .message = question});
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

void JobRegistry::on_job_added(JobEntry& job) {
  offer(job);
  parts_.answer_created(job);
  parts_.on_job_added(job);
  standbys_.job_added(job);
}

void JobRegistry::on_job_refused(JobEntry& job, const Error& why) {
  // The worker has nothing of it, so the rings of its clients are closed from here.
  for (const auto& [number, link] : job.links) link.files.close_ring(why);
  forget(job, why);
}

void JobRegistry::on_job_gone(JobId id, const std::optional<Error>& why) {
  // Mostly the core let go of it; if not, it does so now.
  core_->post(lanes::JobEnded{.job = id, .cancelled = true});
  JobEntry* job = table_.find(id);
  if (job == nullptr) return;
  forget(*job, why);
  fault_point("broker.job_gone");
}

void JobRegistry::on_events(const std::vector<lanes::Event>& events) {
  // Before the report, events speak of what the core does not know yet.
  if (!core_->running()) return;
  core_->post(events);
  for (const lanes::Event& event : events) {
    if (const auto* placed = std::get_if<lanes::ImagePlaced>(&event)) {
      if (JobEntry* job = table_.find(placed->job)) image_placed(*job);
    }
    if (std::holds_alternative<lanes::TurnEnded>(event)) fault_point("broker.turn_ended");
  }
}

}  // namespace laneway::service
