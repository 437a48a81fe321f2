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
#include "lanes/reason.h"
#include "service/broker/job_pace.h"
#include "service/broker/link_files.h"
#include "service/broker/replies.h"
#include "service/transport/descriptor.h"
#include "service/wire/graph_info.h"
#include "service/wire/held_jobs.h"

namespace laneway::service {

struct SegmentEntry {
  Descriptor memory;
  uint64_t bytes = 0;
  bool added = false;  // the worker has it
  ReplyTo reply;
};

struct LinkEntry {
  SessionId session;
  uint64_t request = 0;  // that made it
  LinkFiles files;
  ReplyTo reply;  // who attached waits
  std::map<uint32_t, SegmentEntry> segments;
};

struct GraphEntry {
  Descriptor graph;
  SessionId session;
  uint64_t request = 0;
  std::optional<wire::GraphInfo> info;  // once the worker has it
  ReplyTo reply;
};

struct JobEntry {
  JobId id() const { return JobId(record.job); }
  SessionId owner() const { return SessionId(record.session); }
  const std::string& name() const { return record.spec.options.name; }

  wire::held::Job record;
  Descriptor initial;  // until the image is placed
  std::map<uint32_t, GraphEntry> graphs;
  // A number is not given again: requests of a graph that was dropped may be on their way.
  uint32_t next_graph = 1;
  std::map<uint32_t, LinkEntry> links;

  // From the worker, when `added`.
  bool added = false;
  Bytes persistent;
  Bytes ephemeral;
  uint64_t context_key = 0;

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
