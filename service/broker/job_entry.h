// JobEntry: what the broker keeps of one job: what is held of it at the supervisor, how far worker
// and core are with it, and who waits for an answer about it. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "lanes/state/reason.h"
#include "service/broker/job_pace.h"
#include "service/broker/link_files.h"
#include "service/broker/quotas.h"
#include "service/broker/replies.h"
#include "service/transport/descriptor.h"
#include "service/wire/graph_info.h"
#include "service/wire/held_jobs.h"

namespace laneway::service {

// Of a job: what is held, and what the worker is sent, each under a name of its own.
struct JobPart {
  enum class Kind : uint8_t { job, graph, link, segment };
  JobId job;
  Kind kind = Kind::job;
  uint32_t number = 0;  // of the graph, or the link
  uint32_t segment = 0;
  friend bool operator==(const JobPart&, const JobPart&) = default;
};

// `held`, of each part: the supervisor has it. No request is answered before.
struct SegmentEntry {
  Descriptor memory;
  uint64_t bytes = 0;
  Quotas::Share share;  // of descriptors
  bool held = false;
  bool added = false;  // the worker has it
  ReplyTo reply;
};

struct LinkEntry {
  SessionId session;
  uint64_t request = 0;  // that made it
  LinkFiles files;
  Quotas::Share share;  // of descriptors
  bool held = false;
  ReplyTo reply;  // who attached waits
  std::map<uint32_t, SegmentEntry> segments;
};

struct GraphEntry {
  Descriptor graph;
  Quotas::Share share;  // of descriptors
  bool held = false;    // of the first one: as the job
  SessionId session;
  uint64_t request = 0;
  std::optional<wire::GraphInfo> info;  // once the worker has it
  ReplyTo reply;
};

struct JobEntry {
  JobId id() const { return JobId(record.job); }
  SessionId owner() const { return SessionId(record.session); }
  TimePoint offered_at() const { return TimePoint(record.offered_ns); }
  const std::string& name() const { return record.spec.options.name; }
  // What goes with the job's spec.
  std::vector<const Descriptor*> descriptors() const {
    std::vector<const Descriptor*> all{&graphs.at(0).graph};
    if (initial.valid()) all.push_back(&initial);
    for (const Descriptor& file : files) all.push_back(&file);
    return all;
  }
  // From the second one on; as many as spec says.
  void take_first_bytes(std::vector<Descriptor> fds) {
    size_t next = 1;
    if (record.spec.has_initial) initial = std::move(fds[next++]);
    for (; next < fds.size(); ++next) files.push_back(std::move(fds[next]));
  }

  wire::held::Job record;
  Quotas::Share place;  // among the jobs
  Quotas::Share note;   // of held bytes
  bool held = false;
  // Until the image is placed: of memory and files, as spec says.
  Descriptor initial;
  std::vector<Descriptor> files;
  Quotas::Share first_bytes;  // of descriptors
  std::map<uint32_t, GraphEntry> graphs;
  // A number is not given again: requests of a graph that was dropped may be on their way.
  uint32_t next_graph = 1;
  std::map<uint32_t, LinkEntry> links;

  // From the worker, when `added`.
  bool added = false;
  Bytes persistent;
  Bytes ephemeral;
  uint64_t context_key = 0;
  Duration iteration_estimate;

  bool offered = false;          // the core knows it
  bool placed = false;           // its image has its bytes
  std::optional<Error> refused;  // by the core: it goes as soon as the worker says so
  lanes::Reason reason;          // why it waits
  JobPace pace;                  // as far as anybody asked

  std::optional<Error> closing;  // its end was asked for; its clients get this error
  ReplyTo creator;
  std::vector<ReplyTo> closers;
};

}  // namespace laneway::service
