// The registry, part: a new broker (what the supervisor held comes back) and a new worker (it is
// told everything, and its report makes the core anew).
#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "service/broker/job_registry.h"
#include "service/broker/keys.h"

namespace laneway::service {
namespace {

Error no_sense(const std::string& key, const std::string& why) {
  return Error{ErrorCode::invalid_argument,
               "what was held under '" + key + "' makes no sense: " + why};
}

}  // namespace

Status JobRegistry::restore(const std::string& key, const std::vector<uint8_t>& note,
                            std::vector<Descriptor> fds) {
  const auto* data = reinterpret_cast<const std::byte*>(note.data());
  const std::vector<std::byte> bytes(data, data + note.size());
  if (key == "n") {
    auto last = wire::decode_message<wire::held::LastJob>(bytes);
    if (!last) return no_sense(key, last.error().message);
    table_.ids_after(last.value().job);
    return {};
  }
  const auto numbers = key_numbers(key);
  const char kind = key.empty() ? ' ' : key.front();
  const size_t expected = kind == 'j' ? 1 : kind == 'm' ? 3 : 2;
  if (!numbers || numbers->size() != expected ||
      std::string("jglm").find(kind) == std::string::npos)
    return no_sense(key, "no key of a job");
  Status done = kind == 'j' ? restore_job(bytes, std::move(fds))
                            : restore_part(key, *numbers, bytes, std::move(fds));
  if (!done) return no_sense(key, done.error().message);
  return {};
}

Status JobRegistry::restore_job(const std::vector<std::byte>& note, std::vector<Descriptor> fds) {
  auto record = wire::decode_message<wire::held::Job>(note);
  if (!record) return record.error();
  if (fds.size() != (record.value().spec.has_initial ? 2u : 1u)) {
    return Error{ErrorCode::invalid_argument, "another number of descriptors"};
  }
  JobEntry job;
  job.record = std::move(record).value();
  GraphEntry graph;
  graph.graph = std::move(fds[0]);
  graph.session = job.owner();
  job.graphs.emplace(0, std::move(graph));
  if (fds.size() > 1) job.initial = std::move(fds[1]);
  const Result<JobEntry*> added = table_.add(std::move(job));
  return added ? Status() : Status(added.error());
}

Status JobRegistry::restore_part(const std::string& key, const std::vector<uint64_t>& numbers,
                                 const std::vector<std::byte>& note, std::vector<Descriptor> fds) {
  const char kind = key.front();
  JobEntry* job = table_.find(JobId(numbers[0]));
  if (job == nullptr) {
    holder_.release(key);  // the broker before died while it forgot the job
    return {};
  }
  const auto number = static_cast<uint32_t>(numbers[1]);
  if (kind == 'l') {
    auto held = wire::decode_message<wire::held::Link>(note);
    auto files = LinkFiles::from(std::move(fds));
    if (!held || !files) return held ? files.error() : held.error();
    LinkEntry& link = job->links[number];
    link.session = SessionId(held.value().session);
    link.request = held.value().request;
    link.files = std::move(files).value();
    return {};
  }
  if (fds.size() != 1) return Error{ErrorCode::invalid_argument, "another number of descriptors"};
  if (kind == 'g') {
    auto held = wire::decode_message<wire::held::Graph>(note);
    if (!held) return held.error();
    GraphEntry& graph = job->graphs[number];
    graph.graph = std::move(fds[0]);
    graph.session = SessionId(held.value().session);
    graph.request = held.value().request;
    return {};
  }
  const auto link = job->links.find(number);
  auto held = wire::decode_message<wire::held::Segment>(note);
  if (kind != 'm' || !held || link == job->links.end()) {
    return Error{ErrorCode::invalid_argument, "neither job, graph, link nor segment"};
  }
  SegmentEntry& segment = link->second.segments[static_cast<uint32_t>(numbers[2])];
  segment.memory = std::move(fds[0]);
  segment.bytes = held.value().bytes;
  return {};
}

void JobRegistry::restored(const std::set<SessionId>& sessions) {
  std::set<SessionId> ended;
  for (const auto& [id, job] : table_.all()) {
    if (sessions.count(job.owner()) == 0) ended.insert(job.owner());
    for (const auto& [number, link] : job.links) {
      if (sessions.count(link.session) == 0) ended.insert(link.session);
    }
  }
  for (const SessionId session : ended) session_ended(session, true);
}

// Everything that is held, again: what it has already it answers as the first time.
void JobRegistry::worker_connected(Channel channel) {
  worker_.connect(std::move(channel));
  core_->worker_lost();
  told_.clear();
  for (auto& [id, job] : table_.all()) {
    job.added = job.offered = job.placed = false;
    job.refused.reset();
    job.reason = {};
    // It failed, and nobody heard the worker say that it is gone: it must not begin again.
    for (const auto& [number, link] : job.links) {
      const bool owners = link.session == job.owner() && !job.closing;
      if (owners) job.closing = link.files.closed_reason();
    }
    tell_job(job);
    for (auto& [number, graph] : job.graphs) {
      graph.info.reset();
      if (number != 0) tell_graph(job, number);
    }
    for (auto& [number, link] : job.links) {
      tell_link(job, number);
      for (auto& [segment, entry] : link.segments) {
        entry.added = false;
        tell_segment(job, number, segment);
      }
    }
  }
  worker_.send(wire::to_worker::Recovered{});
  ask_again();
  for (const auto& [id, job] : table_.all()) {
    if (!job.record.first_graph_dropped) continue;
    wire::to_worker::DropGraph question;
    question.job = id.value();
    ask({.to = {}, .job = id, .graph = 0, .question = question});
  }
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
  }
}

void JobRegistry::on(const wire::from_worker::Report& message) {
  lanes::WorkerReport report = message.report;
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
    if (reported.placed && !reported.over) placed.push_back(id);
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
      tell_close(job);
      core_->post(lanes::JobEnded{.job = id, .cancelled = true});
    }
    offer(job);
    answer_created(job);
  }
}

}  // namespace laneway::service
