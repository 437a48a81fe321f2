// Messages between a client and the broker: requests and replies over ZeroMQ, one frame each, and
// what goes over the lifeline. Numbers are of the session unless said. Descriptors of a request are
// sent over the lifeline first, in a DescriptorMessage of the same number; those of a reply come
// the same way before it. Every request is answered by the reply named behind it, or by Failure.
// Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/job_changes.h"
#include "base/result.h"
#include "lanes/state/event.h"
#include "service/wire/graph_info.h"
#include "service/wire/job_spec.h"
#include "service/wire/message.h"

namespace laneway::wire {

struct Hello {  // -> Welcome; then the client opens the lifeline
  static constexpr MessageType kType{.number = 1, .name = "Hello", .max_bytes = 4096};
  std::string client_version;
  std::string program;  // for logs and status
  friend bool operator==(const Hello&, const Hello&) = default;
};

struct Bye {  // -> Done: the session ends and its jobs with it
  static constexpr MessageType kType{.number = 2, .name = "Bye", .max_bytes = 64};
  friend bool operator==(const Bye&, const Bye&) = default;
};

struct CreateJob {  // + [graph memfd, initial memfd if spec.has_initial, files] -> JobCreated
  static constexpr MessageType kType{.number = 3,
                                     .version = 4 + kJobOptionsVersion,
                                     .name = "CreateJob",
                                     .max_bytes = limits::kMaxRequestBytes};
  JobSpec spec;
  std::string torch_version;  // with which its graphs are captured; empty: not known
  friend bool operator==(const CreateJob&, const CreateJob&) = default;
};

struct AttachJob {  // -> JobAttached; refused unless the job is shared and of the same user
  static constexpr MessageType kType{.number = 4, .name = "AttachJob", .max_bytes = 8192};
  std::string name;
  friend bool operator==(const AttachJob&, const AttachJob&) = default;
};

struct AddGraph {  // + [graph memfd] -> GraphAdded
  static constexpr MessageType kType{.number = 5, .name = "AddGraph", .max_bytes = 64};
  uint64_t job = 0;
  friend bool operator==(const AddGraph&, const AddGraph&) = default;
};

struct DropGraph {  // -> Done
  static constexpr MessageType kType{.number = 6, .name = "DropGraph", .max_bytes = 64};
  uint64_t job = 0;
  uint32_t number = 0;
  friend bool operator==(const DropGraph&, const DropGraph&) = default;
};

struct AddSegment {  // + [memfd of `bytes`] -> Done
  static constexpr MessageType kType{.number = 7, .name = "AddSegment", .max_bytes = 64};
  uint64_t job = 0;
  uint32_t link = 0;
  uint32_t segment = 0;  // the client's number
  uint64_t bytes = 0;
  friend bool operator==(const AddSegment&, const AddSegment&) = default;
};

struct DropSegment {  // -> Done
  static constexpr MessageType kType{.number = 8, .name = "DropSegment", .max_bytes = 64};
  uint64_t job = 0;
  uint32_t link = 0;
  uint32_t segment = 0;
  friend bool operator==(const DropSegment&, const DropSegment&) = default;
};

struct CloseJob {  // -> Done when its memory is given back; of an attached job only the link ends
  static constexpr MessageType kType{.number = 9, .name = "CloseJob", .max_bytes = 64};
  uint64_t job = 0;
  uint32_t link =
      0;  // the attached one that ends: a session may attach to what it made; 0: the job
  friend bool operator==(const CloseJob&, const CloseJob&) = default;
};

struct WaitJob {  // -> JobPlaced or, after `timeout_ms`, JobWaits
  static constexpr MessageType kType{.number = 10, .name = "WaitJob", .max_bytes = 64};
  uint64_t job = 0;
  uint32_t timeout_ms = 0;  // at most limits::kMaxWaitMs; a longer wait is asked for again
  friend bool operator==(const WaitJob&, const WaitJob&) = default;
};

struct JobReport {  // -> Text, JSON
  static constexpr MessageType kType{.number = 11, .name = "JobReport", .max_bytes = 64};
  uint64_t job = 0;
  bool with_tapes = false;
  friend bool operator==(const JobReport&, const JobReport&) = default;
};

struct ServiceStatus {  // -> StatusReply
  static constexpr MessageType kType{
      .number = 12, .version = 2, .name = "ServiceStatus", .max_bytes = 64};
  bool with_ended = true;  // also the last few jobs that are over
  friend bool operator==(const ServiceStatus&, const ServiceStatus&) = default;
};

struct KillJob {  // -> Done
  static constexpr MessageType kType{.number = 13, .name = "KillJob", .max_bytes = 8192};
  std::string job;  // see service/wire/job_ref.h
  friend bool operator==(const KillJob&, const KillJob&) = default;
};

struct ReleaseJob {  // -> Done when the job, which was quarantined, is tried again
  static constexpr MessageType kType{.number = 16, .name = "ReleaseJob", .max_bytes = 8192};
  std::string job;  // see service/wire/job_ref.h
  friend bool operator==(const ReleaseJob&, const ReleaseJob&) = default;
};

struct SetResidency {  // -> Done when the service knows of the wish; the status says what comes of
                       // it
  static constexpr MessageType kType{.number = 17, .name = "SetResidency", .max_bytes = 8192};
  std::string job;  // see service/wire/job_ref.h
  lanes::Residency wanted = lanes::Residency::load;
  friend bool operator==(const SetResidency&, const SetResidency&) = default;
};

struct SetJob {  // -> Done
  static constexpr MessageType kType{
      .number = 18, .version = kJobOptionsVersion, .name = "SetJob", .max_bytes = 8192};
  std::string job;  // see service/wire/job_ref.h
  JobChanges changes;
  friend bool operator==(const SetJob&, const SetJob&) = default;
};

struct SetPolicy {  // -> Done
  static constexpr MessageType kType{.number = 14, .name = "SetPolicy", .max_bytes = 8192};
  std::string policy;  // NAME[:key=value…]
  friend bool operator==(const SetPolicy&, const SetPolicy&) = default;
};

struct SetPool {  // -> Done when the service knows of the wish; the status says when it is so
  static constexpr MessageType kType{.number = 19, .name = "SetPool", .max_bytes = 64};
  uint64_t bytes = 0;
  friend bool operator==(const SetPool&, const SetPool&) = default;
};

// What the core is told and decides is written to this file, from now on, until EndRecord or the
// session's end.
struct StartRecord {  // -> Done
  static constexpr MessageType kType{.number = 20, .name = "StartRecord", .max_bytes = 8192};
  std::string file;  // absolute; as begin_trace_file (service/trace/trace_file.h) takes it
  friend bool operator==(const StartRecord&, const StartRecord&) = default;
};

struct EndRecord {  // -> Done when all of it is in the file
  static constexpr MessageType kType{.number = 21, .name = "EndRecord", .max_bytes = 64};
  friend bool operator==(const EndRecord&, const EndRecord&) = default;
};

struct Shutdown {  // -> Done
  static constexpr MessageType kType{.number = 15, .name = "Shutdown", .max_bytes = 64};
  friend bool operator==(const Shutdown&, const Shutdown&) = default;
};

using AnyRequest =
    std::variant<Hello, Bye, CreateJob, AttachJob, AddGraph, DropGraph, AddSegment, DropSegment,
                 CloseJob, WaitJob, JobReport, ServiceStatus, KillJob, ReleaseJob, SetResidency,
                 SetJob, SetPolicy, SetPool, Shutdown, StartRecord, EndRecord>;

}  // namespace laneway::wire
