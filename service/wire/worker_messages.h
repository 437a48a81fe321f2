// Messages between the broker and the active worker. `request` is the broker's number, which the
// worker's answer repeats. Plain data.
//
// A broker that begins, and one whose worker is new, says everything that is held again: AddJob,
// AddGraph (numbered), AddLink and AddSegment of every job, then Recovered. Hence adding what the
// worker has already is answered as the first time (with what is known now), and changes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "lanes/state/report.h"
#include "service/wire/graph_info.h"
#include "service/wire/iteration_note.h"
#include "service/wire/job_spec.h"
#include "service/wire/message.h"

// Broker to worker.
namespace laneway::wire::to_worker {

struct AddJob {  // + [graph memfd, initial memfd if spec.has_initial, files] -> JobAdded or Reply
  static constexpr MessageType kType{
      .number = 201, .version = 3 + kJobOptionsVersion, .name = "to_worker::AddJob"};
  uint64_t request = 0;
  uint64_t job = 0;
  uint64_t session = 0;
  uint32_t user = 0;    // uid
  uint32_t record = 0;  // index in the journal
  JobSpec spec;
  friend bool operator==(const AddJob&, const AddJob&) = default;
};

struct AddGraph {  // + [graph memfd] -> GraphAdded or Reply
  static constexpr MessageType kType{.number = 202, .name = "to_worker::AddGraph"};
  uint64_t request = 0;
  uint64_t job = 0;
  bool numbered = false;  // `number` is to be its number (the broker gives them, from 1 on)
  uint32_t number = 0;
  friend bool operator==(const AddGraph&, const AddGraph&) = default;
};

struct DropGraph {  // -> Reply
  static constexpr MessageType kType{.number = 203, .name = "to_worker::DropGraph"};
  uint64_t request = 0;
  uint64_t job = 0;
  uint32_t number = 0;
  friend bool operator==(const DropGraph&, const DropGraph&) = default;
};

struct AddLink {  // + [ring memfd, submit eventfd, write end of the completion pipe] -> Reply
  static constexpr MessageType kType{.number = 204, .version = 2, .name = "to_worker::AddLink"};
  uint64_t request = 0;
  uint64_t job = 0;
  uint32_t link = 0;
  bool owners = false;  // of the client that made the job
  friend bool operator==(const AddLink&, const AddLink&) = default;
};

struct DropLink {  // -> Reply
  static constexpr MessageType kType{.number = 205, .name = "to_worker::DropLink"};
  uint64_t request = 0;
  uint64_t job = 0;
  uint32_t link = 0;
  friend bool operator==(const DropLink&, const DropLink&) = default;
};

struct AddSegment {  // + [memfd of `bytes`] -> Reply
  static constexpr MessageType kType{.number = 206, .name = "to_worker::AddSegment"};
  uint64_t request = 0;
  uint64_t job = 0;
  uint32_t link = 0;
  uint32_t segment = 0;
  uint64_t bytes = 0;
  friend bool operator==(const AddSegment&, const AddSegment&) = default;
};

struct DropSegment {  // -> Reply
  static constexpr MessageType kType{.number = 207, .name = "to_worker::DropSegment"};
  uint64_t request = 0;
  uint64_t job = 0;
  uint32_t link = 0;
  uint32_t segment = 0;
  friend bool operator==(const DropSegment&, const DropSegment&) = default;
};

struct CloseJob {  // -> JobGone when its memory is given back
  static constexpr MessageType kType{.number = 208, .name = "to_worker::CloseJob"};
  uint64_t job = 0;
  // What its clients get through their rings: the code and a sentence.
  ErrorCode code = ErrorCode::cancelled;
  std::string reason;
  friend bool operator==(const CloseJob&, const CloseJob&) = default;
};

struct JobReport {  // -> JobText or Reply
  static constexpr MessageType kType{.number = 209, .name = "to_worker::JobReport"};
  uint64_t request = 0;
  uint64_t job = 0;
  bool with_tapes = false;
  friend bool operator==(const JobReport&, const JobReport&) = default;
};

struct Actions {  // of the core, to be carried out in order
  static constexpr MessageType kType{
      .number = 210, .version = 6 + kJobOptionsVersion, .name = "to_worker::Actions"};
  std::vector<lanes::Action> actions;
};

// All that is held was said -> Report, before any further event. A new worker binds images and
// opens lanes as the journal says first; one that was recovered before has nothing to do.
struct Recovered {
  static constexpr MessageType kType{.number = 211, .name = "to_worker::Recovered"};
  friend bool operator==(const Recovered&, const Recovered&) = default;
};

struct ReleaseJob {  // -> Reply
  static constexpr MessageType kType{.number = 212, .name = "to_worker::ReleaseJob"};
  uint64_t request = 0;
  uint64_t job = 0;
  friend bool operator==(const ReleaseJob&, const ReleaseJob&) = default;
};

struct SetResidency {  // -> Reply
  static constexpr MessageType kType{.number = 213, .name = "to_worker::SetResidency"};
  uint64_t request = 0;
  uint64_t job = 0;
  lanes::Residency wanted = lanes::Residency::load;
  friend bool operator==(const SetResidency&, const SetResidency&) = default;
};

using Any = std::variant<AddJob, AddGraph, DropGraph, AddLink, DropLink, AddSegment, DropSegment,
                         CloseJob, JobReport, Actions, Recovered, ReleaseJob, SetResidency>;

}  // namespace laneway::wire::to_worker

// Worker to broker.
namespace laneway::wire::from_worker {

struct Reply {
  static constexpr MessageType kType{.number = 251, .name = "from_worker::Reply"};
  uint64_t request = 0;
  bool ok = true;
  ErrorCode code = ErrorCode::internal;  // only when not ok, as is the message
  std::string message;
  friend bool operator==(const Reply&, const Reply&) = default;
};

struct JobAdded {
  static constexpr MessageType kType{
      .number = 252, .version = 2 + kGraphInfoVersion, .name = "from_worker::JobAdded"};
  uint64_t request = 0;
  uint64_t job = 0;
  GraphInfo graph;
  uint64_t persistent = 0;  // bytes of the image
  uint64_t ephemeral = 0;   // bytes that its lane must have, as estimated
  uint64_t context_key = 0;
  Duration iteration_estimate = Duration();  // as lanes::JobOffered has it
  friend bool operator==(const JobAdded&, const JobAdded&) = default;
};

struct GraphAdded {
  static constexpr MessageType kType{
      .number = 253, .version = 1 + kGraphInfoVersion, .name = "from_worker::GraphAdded"};
  uint64_t request = 0;
  uint64_t job = 0;
  GraphInfo graph;
  friend bool operator==(const GraphAdded&, const GraphAdded&) = default;
};

struct Events {  // for the core, in order
  static constexpr MessageType kType{.number = 254, .version = 7, .name = "from_worker::Events"};
  std::vector<lanes::Event> events;
};

struct JobGone {  // its memory, links and segments may be forgotten
  static constexpr MessageType kType{.number = 255, .name = "from_worker::JobGone"};
  uint64_t job = 0;
  bool failed = false;
  ErrorCode code = ErrorCode::internal;  // only when failed, as is the message
  std::string message;
  friend bool operator==(const JobGone&, const JobGone&) = default;
};

struct JobText {
  static constexpr MessageType kType{.number = 256, .name = "from_worker::JobText"};
  uint64_t request = 0;
  std::string text;
  friend bool operator==(const JobText&, const JobText&) = default;
};

// Events that were sent before it belong to the broker before; those after it are about its state.
struct Report {
  static constexpr MessageType kType{
      .number = 257, .version = 8 + kJobOptionsVersion, .name = "from_worker::Report"};
  lanes::WorkerReport report;
};

// What lanes ran, in no order; only when a trace is written.
struct Iterations {
  static constexpr MessageType kType{
      .number = 258, .version = 2, .name = "from_worker::Iterations"};
  std::vector<IterationNote> notes;
  uint64_t lost = 0;  // before these: there was no room for them
  friend bool operator==(const Iterations&, const Iterations&) = default;
};

using Any = std::variant<Reply, JobAdded, GraphAdded, Events, JobGone, JobText, Report, Iterations>;

}  // namespace laneway::wire::from_worker
