// The registry, part: what the supervisor holds, a new broker (what it held comes back) and a new
// worker (which gets everything, and whose report makes the core anew).
#include <string>
#include <utility>

#include "service/broker/job_registry.h"
#include "service/broker/job_shares.h"

namespace laneway::service {

Status JobRegistry::restore(const std::string& key, const std::vector<uint8_t>& note,
                            std::vector<Descriptor> fds) {
  return store_.restore(table_, key, note, std::move(fds));
}

void JobRegistry::restored(const std::set<SessionId>& sessions) {
  keep_shares(quotas_, table_);
  std::set<SessionId> ended;
  for (const auto& [id, job] : table_.all()) {
    if (sessions.count(job.owner()) == 0) ended.insert(job.owner());
    for (const auto& [number, link] : job.links) {
      if (sessions.count(link.session) == 0) ended.insert(link.session);
    }
  }
  for (const SessionId session : ended) session_ended(session, true);
}

bool JobRegistry::hold_refused(uint64_t number, const Error& why) {
  const auto part = store_.take_refused(number);
  if (!part) return false;
  JobEntry* job = table_.find(part->job);
  if (job == nullptr) return true;
  if (part->kind != JobPart::Kind::job && !parts_.is_of_creator(*job, *part)) {
    parts_.on_hold_refused(*job, *part, why);
    return true;
  }
  end_job(*job, why, true);
  parts_.answer_created(*job);
  return true;
}

void JobRegistry::worker_connected(Channel channel, TorchVersions torch) {
  worker_.connect(std::move(channel));
  reader_.set_torch(std::move(torch));
  core_->worker_lost();
  tell_all_again();
}

void JobRegistry::begin_core_anew() {
  // A report that is due makes it: a second one would not know what that one's core decided.
  if (!worker_.up() || !core_->running()) return;
  core_->begin_anew();
  tell_all_again();
}

// Everything that is held: what the worker has it answers as the first time, and reports then.
void JobRegistry::tell_all_again() {
  requests_.forget_additions();
  for (auto& [id, job] : table_.all()) {
    job.added = job.offered = job.placed = false;
    job.refused.reset();
    job.reason = {};
    // The job failed, and the message that it is gone was lost: it must not begin again.
    for (const auto& [number, link] : job.links) {
      const bool owners = link.session == job.owner() && !job.closing;
      if (owners) job.closing = link.files.closed_reason();
    }
    requests_.send_job(job);
    parts_.send_again(job);
  }
  worker_.send(wire::to_worker::Recovered{});
  requests_.ask_again();
  for (const auto& [id, job] : table_.all()) parts_.drop_again(job);
}

void JobRegistry::worker_gone() {
  worker_.hang_up();
  core_->worker_lost();
}

// Of what the broker knows better than the worker, its own word counts.
void JobRegistry::correct(lanes::WorkerReport& report) {
  for (lanes::ReportedJob& reported : report.jobs) {
    const JobEntry* job = table_.find(reported.offer.job);
    if (job == nullptr) continue;
    reported.offer.session = job->owner();
    reported.offer.options = job->record.spec.options;
    reported.offer.offered_at = job->offered_at();
  }
}

void JobRegistry::on_report(lanes::WorkerReport report) {
  correct(report);
  std::vector<JobId> strangers;
  std::vector<JobId> placed;
  for (const lanes::ReportedJob& reported : report.jobs) {
    const JobId id = reported.offer.job;
    JobEntry* job = table_.find(id);
    if (job == nullptr) {
      strangers.push_back(id);
      continue;
    }
    job->offered = true;
    const bool was_placed = reported.image.is_usable() || reported.image.clean;
    if (was_placed && !reported.over) placed.push_back(id);
  }
  core_->restart(std::move(report));
  for (const JobId id : strangers) {
    wire::to_worker::CloseJob close;
    close.job = id.value();
    close.reason = "nobody knows of this job any more";
    worker_.send(close);
    core_->post(lanes::JobEnded{.job = id, .cancelled = true});
  }
  for (const JobId id : placed) image_placed(*table_.find(id));
  for (auto& [id, job] : table_.all()) {
    if (job.closing) {
      requests_.send_close(job);
      core_->post(lanes::JobEnded{.job = id, .cancelled = true});
    }
    offer(job);
    parts_.answer_created(job);
  }
}

}  // namespace laneway::service
