// JobParts, what the supervisor answered: whether a part is held.
#include <utility>

#include "service/broker/job_parts.h"

namespace laneway::service {

bool JobParts::is_of_creator(const JobEntry& job, const JobPart& part) {
  const auto link = job.links.find(part.number);
  return part.kind == JobPart::Kind::link && link != job.links.end() &&
         link->second.session == job.owner() && link->second.request == job.record.request;
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
