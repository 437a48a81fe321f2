#include "service/broker/job_store.h"

#include <utility>

#include "service/broker/keys.h"
#include "service/wire/codec.h"

namespace laneway::service {
namespace {

Error no_sense(const std::string& key, const std::string& why) {
  return Error{ErrorCode::invalid_argument,
               "what was held under '" + key + "' makes no sense: " + why};
}

Error other_descriptors() {
  return Error{ErrorCode::invalid_argument, "another number of descriptors"};
}

Status restore_job(JobTable& table, const std::vector<std::byte>& note,
                   std::vector<Descriptor> fds) {
  auto record = wire::decode_message<wire::held::Job>(note);
  if (!record) return record.error();
  if (fds.size() != record.value().spec.descriptors()) return other_descriptors();
  JobEntry job;
  job.record = std::move(record).value();
  job.held = true;
  GraphEntry graph;
  graph.held = true;
  graph.graph = std::move(fds[0]);
  graph.session = job.owner();
  job.graphs.emplace(0, std::move(graph));
  job.take_first_bytes(std::move(fds));
  const Result<JobEntry*> added = table.add(std::move(job));
  return added ? Status() : Status(added.error());
}

Status restore_link(JobEntry& job, uint32_t number, const std::vector<std::byte>& note,
                    std::vector<Descriptor> fds) {
  auto held = wire::decode_message<wire::held::Link>(note);
  auto files = LinkFiles::from(std::move(fds));
  if (!held || !files) return held ? files.error() : held.error();
  LinkEntry& link = job.links[number];
  link.session = SessionId(held.value().session);
  link.request = held.value().request;
  link.files = std::move(files).value();
  link.held = true;
  return {};
}

Status restore_graph(JobEntry& job, uint32_t number, const std::vector<std::byte>& note,
                     Descriptor fd) {
  auto held = wire::decode_message<wire::held::Graph>(note);
  if (!held) return held.error();
  GraphEntry& graph = job.graphs[number];
  graph.graph = std::move(fd);
  graph.held = true;
  graph.session = SessionId(held.value().session);
  graph.request = held.value().request;
  return {};
}

}  // namespace

Status JobStore::hold(const JobPart& part, const std::string& key, std::vector<std::byte> note,
                      const std::vector<const Descriptor*>& fds) {
  auto copied = copies(fds);
  if (!copied) {
    return Error{ErrorCode::refused,
                 "what belongs to '" + key + "' cannot be held: " + copied.error().message};
  }
  const uint64_t number = store_.hold(key, std::move(note), std::move(copied).value());
  unanswered_.emplace_back(number, part);
  return {};
}

void JobStore::hold_last_id(JobId last) {
  store_.hold("n", wire::encode(wire::held::LastJob{last.value()}), {});
}

Status JobStore::hold_job(const JobEntry& job) {
  return hold({.job = job.id(), .kind = JobPart::Kind::job}, job_key(job.id()),
              wire::encode(job.record), job.descriptors());
}

void JobStore::note_job(const JobEntry& job) {
  const uint64_t number =
      store_.renote(job_key(job.id()), wire::encode(job.record), job.descriptors().size());
  unanswered_.emplace_back(number, JobPart{.job = job.id(), .kind = JobPart::Kind::job});
}

Status JobStore::hold_link(const JobEntry& job, uint32_t number) {
  const LinkEntry& link = job.links.at(number);
  const LinkFiles& files = link.files;
  return hold({.job = job.id(), .kind = JobPart::Kind::link, .number = number},
              link_key(job.id(), number),
              wire::encode(wire::held::Link{link.session.value(), link.request}),
              {&files.ring, &files.submit, &files.done_read, &files.done_write});
}

Status JobStore::hold_graph(const JobEntry& job, uint32_t number) {
  const GraphEntry& graph = job.graphs.at(number);
  return hold({.job = job.id(), .kind = JobPart::Kind::graph, .number = number},
              graph_key(job.id(), number),
              wire::encode(wire::held::Graph{graph.session.value(), graph.request}),
              {&graph.graph});
}

Status JobStore::hold_segment(const JobEntry& job, uint32_t link, uint32_t number) {
  const SegmentEntry& segment = job.links.at(link).segments.at(number);
  return hold({.job = job.id(), .kind = JobPart::Kind::segment, .number = link, .segment = number},
              segment_key(job.id(), link, number), wire::encode(wire::held::Segment{segment.bytes}),
              {&segment.memory});
}

std::vector<JobPart> JobStore::take_held(uint64_t number) {
  std::vector<JobPart> held;
  while (!unanswered_.empty() && unanswered_.front().first <= number) {
    held.push_back(unanswered_.front().second);
    unanswered_.pop_front();
  }
  return held;
}

std::optional<JobPart> JobStore::take_refused(uint64_t number) {
  for (auto at = unanswered_.begin(); at != unanswered_.end(); ++at) {
    if (at->first != number) continue;
    const JobPart part = at->second;
    unanswered_.erase(at);
    return part;
  }
  return std::nullopt;
}

void JobStore::release_job(const JobEntry& job) {
  store_.release(job_key(job.id()));
  for (const auto& [number, link] : job.links) release_link(job, number);
  for (const auto& [number, graph] : job.graphs) {
    if (number != 0) release_graph(job.id(), number);
  }
}

void JobStore::release_link(const JobEntry& job, uint32_t number) {
  for (const auto& [segment, entry] : job.links.at(number).segments) {
    release_segment(job.id(), number, segment);
  }
  store_.release(link_key(job.id(), number));
}

void JobStore::release_graph(JobId job, uint32_t number) { store_.release(graph_key(job, number)); }

void JobStore::release_segment(JobId job, uint32_t link, uint32_t segment) {
  store_.release(segment_key(job, link, segment));
}

Status JobStore::restore(JobTable& table, const std::string& key, const std::vector<uint8_t>& note,
                         std::vector<Descriptor> fds) {
  const auto* data = reinterpret_cast<const std::byte*>(note.data());
  const std::vector<std::byte> bytes(data, data + note.size());
  if (key == "n") {
    auto last = wire::decode_message<wire::held::LastJob>(bytes);
    if (!last) return no_sense(key, last.error().message);
    table.ids_after(last.value().job);
    return {};
  }
  const auto numbers = key_numbers(key);
  const char kind = key.empty() ? ' ' : key.front();
  const size_t expected = kind == 'j' ? 1 : kind == 'm' ? 3 : 2;
  if (!numbers || numbers->size() != expected ||
      std::string("jglm").find(kind) == std::string::npos)
    return no_sense(key, "no key of a job");
  Status done = kind == 'j' ? restore_job(table, bytes, std::move(fds))
                            : restore_part(table, key, *numbers, bytes, std::move(fds));
  if (!done) return no_sense(key, done.error().message);
  return {};
}

Status JobStore::restore_part(JobTable& table, const std::string& key,
                              const std::vector<uint64_t>& numbers,
                              const std::vector<std::byte>& note, std::vector<Descriptor> fds) {
  const char kind = key.front();
  JobEntry* job = table.find(JobId(numbers[0]));
  if (job == nullptr) {
    store_.release(key);  // the broker before died while it forgot the job
    return {};
  }
  const auto number = static_cast<uint32_t>(numbers[1]);
  if (kind == 'l') return restore_link(*job, number, note, std::move(fds));
  if (fds.size() != 1) return other_descriptors();
  if (kind == 'g') return restore_graph(*job, number, note, std::move(fds[0]));
  const auto link = job->links.find(number);
  auto held = wire::decode_message<wire::held::Segment>(note);
  if (kind != 'm' || !held || link == job->links.end()) {
    return Error{ErrorCode::invalid_argument, "neither job, graph, link nor segment"};
  }
  SegmentEntry& segment = link->second.segments[static_cast<uint32_t>(numbers[2])];
  segment.memory = std::move(fds[0]);
  segment.held = true;
  segment.bytes = held.value().bytes;
  return {};
}

}  // namespace laneway::service
