#include "service/broker/job_parts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/fault_point.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/printable.h"
#include "service/broker/limits.h"
#include "service/wire/worker_messages.h"

namespace laneway::service {
namespace {

Status expect_one(const std::vector<Descriptor>& fds, const char* what) {
  if (fds.size() == 1) return {};
  return Error{ErrorCode::invalid_argument, std::string(what) + " comes with 1 descriptor; " +
                                                std::to_string(fds.size()) + " came"};
}

Error over_limit(const char* what, uint32_t most, const char* remedy) {
  return Error{ErrorCode::refused,
               "no more than " + std::to_string(most) + " " + what + " are allowed: " + remedy};
}

// Where the next number is free: behind the last.
template <class Map>
uint32_t next_number(const Map& map) {
  return map.empty() ? 0 : map.rbegin()->first + 1;
}

}  // namespace

std::vector<Descriptor> client_copies(const LinkFiles& files) {
  auto fds = copies({&files.ring, &files.submit, &files.done_read});
  if (fds) return std::move(fds).value();
  log_error("a client does not get its link: " + fds.error().message);
  return {};
}

Result<uint32_t> JobParts::make_link(JobEntry& job, const Requester& from) {
  if (job.links.size() >= limits::kMaxLinksPerJob) {
    return over_limit("clients of one job", limits::kMaxLinksPerJob, "let one detach first");
  }
  auto share = quotas_.take(Resource::descriptors, from.user, limits::kDescriptorsOfLink);
  if (!share) return share.error();
  auto files = LinkFiles::make();
  if (!files) return files.error();
  const uint32_t number = ++job.record.last_link;
  LinkEntry link;
  link.session = from.to.session;
  link.request = from.to.number;
  link.files = std::move(files).value();
  link.share = std::move(share).value();
  job.links.emplace(number, std::move(link));
  // Numbers of links are not used twice: the journal names requests by them.
  store_.note_job(job);
  if (Status held = store_.hold_link(job, number); !held) {
    job.links.erase(number);
    return held.error();
  }
  return number;
}

void JobParts::attach(const Requester& from, const wire::AttachJob& request) {
  std::vector<JobEntry*> named = table_.find_named(request.name);
  std::erase_if(named, [&](const JobEntry* job) {
    return job->record.user != from.user || !job->record.spec.options.shared || job->closing;
  });
  if (named.size() != 1) {
    const std::string why =
        named.empty() ? "there is no job '" + request.name +
                            "' of this user that others may attach to (shared=True)"
                      : "several shared jobs are named '" + request.name + "': give its id";
    return replies_.fail(from.to, {ErrorCode::refused, why});
  }
  JobEntry& job = *named.front();
  for (auto& [number, link] : job.links) {
    if (link.session != from.to.session || link.request != from.to.number) continue;
    link.reply = from.to;
    return answer_attached(job, number);
  }
  const Result<uint32_t> link = make_link(job, from);
  if (!link) return replies_.fail(from.to, link.error());
  job.links.at(link.value()).reply = from.to;
  fault_point("broker.link_held");
  requests_.send_link(job, link.value());
  answer_attached(job, link.value());
}

void JobParts::answer_attached(JobEntry& job, uint32_t number) {
  LinkEntry& link = job.links.at(number);
  if (!link.reply || !link.held || !job.added) return;
  wire::JobAttached reply{.job = job.id().value(),
                          .name = job.name(),
                          .job_class = job.record.spec.options.job_class,
                          .slots = job.record.spec.slots,
                          .graphs = {},
                          .link = number};
  for (const auto& [id, graph] : job.graphs) {
    if (graph.info) reply.graphs.push_back(*graph.info);
  }
  replies_.answer(link.reply, reply, client_copies(link.files));
}

void JobParts::add_graph(const Requester& from, const wire::AddGraph& request,
                         std::vector<Descriptor> fds) {
  const Result<JobEntry*> found = table_.find_for(from, JobId(request.job));
  if (!found) return replies_.fail(from.to, found.error());
  JobEntry& job = *found.value();
  for (auto& [number, graph] : job.graphs) {
    if (number == 0 || graph.session != from.to.session || graph.request != from.to.number) {
      continue;
    }
    graph.reply = from.to;
    return answer_graph(graph);
  }
  if (Status one = expect_one(fds, "a graph"); !one) return replies_.fail(from.to, one.error());
  if (job.closing) return replies_.fail(from.to, *job.closing);
  if (job.graphs.size() >= limits::kMaxGraphsPerJob) {
    return replies_.fail(
        from.to, over_limit("graphs of one job", limits::kMaxGraphsPerJob, "drop one first"));
  }
  auto share = quotas_.take(Resource::descriptors, from.user, 1);
  if (!share) return replies_.fail(from.to, share.error());
  const uint32_t number = std::max(job.next_graph, next_number(job.graphs));
  job.next_graph = number + 1;
  GraphEntry& graph = job.graphs[number];
  graph.graph = std::move(fds[0]);
  graph.share = std::move(share).value();
  graph.session = from.to.session;
  graph.request = from.to.number;
  graph.reply = from.to;
  if (Status held = store_.hold_graph(job, number); !held) {
    replies_.refuse(graph.reply, held.error());
    job.graphs.erase(number);
    return;
  }
  fault_point("broker.graph_held");
  requests_.send_graph(job, number);
}

void JobParts::drop_graph(const Requester& from, const wire::DropGraph& request) {
  const Result<JobEntry*> found = table_.find_for(from, JobId(request.job));
  if (!found) return replies_.fail(from.to, found.error());
  JobEntry& job = *found.value();
  const auto graph = job.graphs.find(request.number);
  if (graph == job.graphs.end() || (request.number == 0 && job.record.first_graph_dropped)) {
    return replies_.send(from.to, wire::Done{});  // dropped before
  }
  if (graph->second.session != from.to.session && job.owner() != from.to.session) {
    return replies_.fail(from.to,
                         {ErrorCode::refused, "graph " + std::to_string(request.number) +
                                                  " belongs to another client of the job"});
  }
  ask_to_drop_graph(job, request.number, from.to);
}

void JobParts::drop_graphs_of(JobEntry& job, SessionId session) {
  for (const auto& [number, graph] : job.graphs) {
    if (graph.session == session) ask_to_drop_graph(job, number, {});
  }
}

void JobParts::ask_to_drop_graph(const JobEntry& job, uint32_t number, ReplyTo to) {
  wire::to_worker::DropGraph question;
  question.job = job.id().value();
  question.number = number;
  requests_.ask({.to = to, .job = job.id(), .graph = number, .message = question});
}

Result<LinkEntry*> JobParts::find_link(const Requester& from, JobEntry& job, uint32_t number) {
  const auto link = job.links.find(number);
  if (link == job.links.end() || link->second.session != from.to.session) {
    return Error{ErrorCode::invalid_argument, "link " + std::to_string(number) + " of job '" +
                                                  job.name() + "' is not this session's"};
  }
  return &link->second;
}

void JobParts::add_segment(const Requester& from, const wire::AddSegment& request,
                           std::vector<Descriptor> fds) {
  const Result<JobEntry*> found = table_.find_for(from, JobId(request.job));
  if (!found) return replies_.fail(from.to, found.error());
  JobEntry& job = *found.value();
  const Result<LinkEntry*> link = find_link(from, job, request.link);
  if (!link) return replies_.fail(from.to, link.error());
  auto& segments = link.value()->segments;
  if (const auto there = segments.find(request.segment); there != segments.end()) {
    there->second.reply = from.to;
    return answer_segment(there->second);
  }
  if (Status one = expect_one(fds, "a segment"); !one) return replies_.fail(from.to, one.error());
  if (job.closing) return replies_.fail(from.to, *job.closing);
  if (segments.size() >= limits::kMaxSegmentsPerLink) {
    return replies_.fail(from.to, over_limit("segments of one client of a job",
                                             limits::kMaxSegmentsPerLink, "drop one first"));
  }
  auto share = quotas_.take(Resource::descriptors, from.user, 1);
  if (!share) return replies_.fail(from.to, share.error());
  SegmentEntry& segment = segments[request.segment];
  segment.share = std::move(share).value();
  segment.memory = std::move(fds[0]);
  segment.bytes = request.bytes;
  segment.reply = from.to;
  if (Status held = store_.hold_segment(job, request.link, request.segment); !held) {
    replies_.refuse(segment.reply, held.error());
    segments.erase(request.segment);
    return;
  }
  fault_point("broker.segment_held");
  requests_.send_segment(job, request.link, request.segment);
}

void JobParts::drop_segment(const Requester& from, const wire::DropSegment& request) {
  JobEntry* job = table_.find(JobId(request.job));
  if (job == nullptr) return replies_.send(from.to, wire::Done{});
  const Result<LinkEntry*> link = find_link(from, *job, request.link);
  if (!link) return replies_.fail(from.to, link.error());
  release_segment(*job, request.link, request.segment, from.to);
}

void JobParts::release_segment(JobEntry& job, uint32_t link, uint32_t segment, ReplyTo to) {
  store_.release_segment(job.id(), link, segment);
  job.links.at(link).segments.erase(segment);
  wire::to_worker::DropSegment question;
  question.job = job.id().value();
  question.link = link;
  question.segment = segment;
  requests_.ask({.to = to, .job = job.id(), .graph = 0, .message = question});
}

void JobParts::detach(JobEntry& job, SessionId session, ReplyTo to) {
  std::vector<uint32_t> links;
  for (const auto& [number, link] : job.links) {
    if (link.session == session) links.push_back(number);
  }
  if (links.empty()) return replies_.answer(to, wire::Done{});
  drop_graphs_of(job, session);
  for (const uint32_t number : links) release_link(job, number, std::exchange(to, {}));
}

void JobParts::drop_link(JobEntry& job, uint32_t number, ReplyTo to) {
  const auto found = job.links.find(number);
  if (found == job.links.end() || found->second.session != to.session) {
    return replies_.answer(to, wire::Done{});
  }
  const auto of_session = [&](const auto& link) { return link.second.session == to.session; };
  const bool last = std::count_if(job.links.begin(), job.links.end(), of_session) == 1;
  if (last && job.owner() != to.session) drop_graphs_of(job, to.session);
  release_link(job, number, to);
}

void JobParts::release_link(JobEntry& job, uint32_t number, ReplyTo to) {
  store_.release_link(job, number);
  job.links.erase(number);
  wire::to_worker::DropLink question;
  question.job = job.id().value();
  question.link = number;
  requests_.ask({.to = to, .job = job.id(), .graph = 0, .message = question});
}

void JobParts::on_job_added(JobEntry& job) {
  for (const auto& [number, link] : job.links) answer_attached(job, number);
}

void JobParts::on_graph_added(JobEntry& job, const wire::GraphInfo& info) {
  const auto graph = job.graphs.find(info.number);
  if (graph == job.graphs.end()) return;
  graph->second.info = info;
  standbys_.graph_added(job, info.number);
  answer_graph(graph->second);
}

void JobParts::answer_graph(GraphEntry& graph) {
  if (graph.held && graph.info) replies_.answer(graph.reply, wire::GraphAdded{*graph.info});
}

void JobParts::answer_segment(SegmentEntry& segment) {
  if (segment.held && segment.added) replies_.answer(segment.reply, wire::Done{});
}

void JobParts::on_addition(JobEntry& job, const JobPart& added,
                           const std::optional<Error>& refused) {
  using Kind = JobPart::Kind;
  if (added.kind == Kind::graph) {
    const auto graph = job.graphs.find(added.number);
    if (!refused || graph == job.graphs.end()) return;
    replies_.refuse(graph->second.reply, *refused);
    store_.release_graph(added.job, added.number);
    job.graphs.erase(graph);
    return;
  }
  const auto link = job.links.find(added.number);
  if (link == job.links.end()) return;
  if (added.kind == Kind::link) {
    if (!refused) return;
    log_error("job '" + printable(job.name()) + "' has a link less: " + refused->message);
    link->second.files.close_ring(*refused);
    return;
  }
  const auto segment = link->second.segments.find(added.segment);
  if (segment == link->second.segments.end()) return;
  if (!refused) {
    segment->second.added = true;
    return answer_segment(segment->second);
  }
  replies_.refuse(segment->second.reply, *refused);
  store_.release_segment(added.job, added.number, added.segment);
  link->second.segments.erase(segment);
}

void JobParts::on_graph_dropped(JobEntry& job, uint32_t number) {
  if (number == 0) {
    // The graph itself stays held: it is what the job's layout is made from.
    job.record.first_graph_dropped = true;
    job.graphs.at(0).info.reset();
    store_.note_job(job);
  } else {
    store_.release_graph(job.id(), number);
    job.graphs.erase(number);
    standbys_.graph_dropped(job.id(), number);
  }
}

void JobParts::send_again(JobEntry& job) {
  for (auto& [number, graph] : job.graphs) {
    graph.info.reset();
    if (number != 0) requests_.send_graph(job, number);
  }
  for (auto& [number, link] : job.links) {
    requests_.send_link(job, number);
    for (auto& [segment, entry] : link.segments) {
      entry.added = false;
      requests_.send_segment(job, number, segment);
    }
  }
}

void JobParts::drop_again(const JobEntry& job) {
  if (job.record.first_graph_dropped) ask_to_drop_graph(job, 0, {});
}

}  // namespace laneway::service
