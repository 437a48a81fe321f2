// JobParts, part: what is held, and who is answered by that.
#include <utility>

#include "base/fault_point.h"
#include "service/broker/job_parts.h"

namespace laneway::service {

bool JobParts::is_of_creator(const JobEntry& job, const JobPart& part) {
  const auto link = job.links.find(part.number);
  return part.kind == JobPart::Kind::link && link != job.links.end() &&
         link->second.session == job.owner() && link->second.request == job.record.request;
}

void JobParts::answer_created(JobEntry& job) {
  if (!job.creator) return;
  if (job.refused || job.closing) {
    return replies_.refuse(job.creator, job.refused ? *job.refused : *job.closing);
  }
  if (!job.held || !job.added || !job.offered) return;
  const uint64_t request = job.record.request;
  for (auto& [number, link] : job.links) {
    if (link.session != job.owner() || link.request != request) continue;
    if (!link.held) return;
    std::vector<Descriptor> fds = client_copies(link.files);
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

void JobParts::holds_done(uint64_t number) {
  for (const JobPart& part : store_.take_held(number)) {
    JobEntry* job = table_.find(part.job);
    if (job == nullptr) continue;
    on_held(*job, part);
    const bool of_creator = part.kind == JobPart::Kind::job || part.kind == JobPart::Kind::link;
    if (of_creator) answer_created(*job);
  }
}

void JobParts::on_held(JobEntry& job, const JobPart& part) {
  if (part.kind == JobPart::Kind::job) {
    job.held = true;
    return;
  }
  if (part.kind == JobPart::Kind::graph) {
    const auto graph = job.graphs.find(part.number);
    if (graph == job.graphs.end()) return;
    graph->second.held = true;
    return answer_graph(graph->second);
  }
  const auto link = job.links.find(part.number);
  if (link == job.links.end()) return;
  if (part.kind == JobPart::Kind::link) {
    link->second.held = true;
    return answer_attached(job, part.number);
  }
  const auto segment = link->second.segments.find(part.segment);
  if (segment == link->second.segments.end()) return;
  segment->second.held = true;
  answer_segment(segment->second);
}

void JobParts::on_hold_refused(JobEntry& job, const JobPart& part, const Error& why) {
  if (part.kind == JobPart::Kind::graph) {
    const auto graph = job.graphs.find(part.number);
    if (graph == job.graphs.end()) return;
    replies_.refuse(graph->second.reply, why);
    return ask_to_drop_graph(job, part.number, {});
  }
  const auto link = job.links.find(part.number);
  if (link == job.links.end()) return;
  if (part.kind == JobPart::Kind::link) {
    replies_.refuse(link->second.reply, why);
    link->second.files.close_ring(why);
    return release_link(job, part.number, {});
  }
  const auto segment = link->second.segments.find(part.segment);
  if (segment == link->second.segments.end()) return;
  replies_.refuse(segment->second.reply, why);
  release_segment(job, part.number, part.segment, {});
}

}  // namespace laneway::service
