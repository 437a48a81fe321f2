// What a broker has the supervisor hold of its jobs, as notes beside descriptors, so that its
// successor knows them. Keys: "j/JOB", "g/JOB/GRAPH", "l/JOB/LINK", "m/JOB/LINK/SEGMENT", and
// "n" for the counter. A request that made something is named in its note: who repeats it after
// the broker's death gets the same thing again. Plain data.
#pragma once

#include <cstdint>
#include <variant>

#include "service/wire/job_spec.h"
#include "service/wire/message.h"

namespace laneway::wire::held {

struct Job {  // + [graph 0, initial bytes while spec.has_initial, files]
  static constexpr MessageType kType{
      .number = 411, .version = 5 + kJobOptionsVersion, .name = "held::Job"};
  uint64_t job = 0;
  uint64_t session = 0;
  uint64_t request = 0;
  uint32_t user = 0;    // uid
  uint32_t record = 0;  // index in the journal
  uint32_t last_link = 0;
  bool first_graph_dropped = false;
  // When its client asked for it, on the machine's steady clock.
  int64_t offered_ns = 0;
  JobSpec spec;  // with the name that was given; first bytes only until the image is placed
  std::string torch_version;  // of CreateJob
  friend bool operator==(const Job&, const Job&) = default;
};

struct Graph {  // + [graph]
  static constexpr MessageType kType{.number = 412, .name = "held::Graph", .max_bytes = 64};
  uint64_t session = 0;
  uint64_t request = 0;
  friend bool operator==(const Graph&, const Graph&) = default;
};

struct Link {  // + [ring, submit eventfd, read end, write end of the completion pipe]
  static constexpr MessageType kType{.number = 413, .name = "held::Link", .max_bytes = 64};
  uint64_t session = 0;
  uint64_t request = 0;
  friend bool operator==(const Link&, const Link&) = default;
};

struct Segment {  // + [memory]
  static constexpr MessageType kType{.number = 414, .name = "held::Segment", .max_bytes = 64};
  uint64_t bytes = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};

struct LastJob {  // ids of jobs are not given twice
  static constexpr MessageType kType{.number = 415, .name = "held::LastJob", .max_bytes = 64};
  uint64_t job = 0;
  friend bool operator==(const LastJob&, const LastJob&) = default;
};

}  // namespace laneway::wire::held
