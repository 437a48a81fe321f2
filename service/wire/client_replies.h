// What the broker answers a client, and what goes over the client's lifeline. Plain data; see
// service/wire/client_messages.h for which reply belongs to which request.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "lanes/state/snapshot.h"
#include "service/wire/graph_info.h"
#include "service/wire/job_spec.h"
#include "service/wire/message.h"
#include "service/wire/service_facts.h"

namespace laneway::wire {

struct Failure {
  static constexpr MessageType kType{.number = 101, .name = "Failure", .max_bytes = 64u << 10};
  ErrorCode code = ErrorCode::internal;
  std::string message;
  friend bool operator==(const Failure&, const Failure&) = default;
};

struct Done {
  static constexpr MessageType kType{.number = 102, .name = "Done", .max_bytes = 64};
  friend bool operator==(const Done&, const Done&) = default;
};

struct Welcome {
  static constexpr MessageType kType{
      .number = 103, .version = 2, .name = "Welcome", .max_bytes = 4096};
  uint64_t session = 0;
  Token token{};
  std::string server_version;
  std::string device;
  uint64_t pool_bytes = 0;
  uint32_t max_in_flight = 0;  // submissions of one link that are not done
  std::string kernels;         // what graphs are captured for: "cpu" or "cuda"
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

struct JobCreated {  // + [ring memfd, submit eventfd, read end of the completion pipe]
  static constexpr MessageType kType{
      .number = 104, .version = 1 + kGraphInfoVersion, .name = "JobCreated"};
  uint64_t job = 0;
  std::string name;
  GraphInfo graph;
  uint32_t link = 0;
  friend bool operator==(const JobCreated&, const JobCreated&) = default;
};

struct JobAttached {  // + the same as JobCreated, of a link of its own
  static constexpr MessageType kType{
      .number = 105, .version = 1 + kGraphInfoVersion, .name = "JobAttached"};
  uint64_t job = 0;
  std::string name;
  JobClass job_class = JobClass::training;
  std::vector<ImageSlot> slots;
  std::vector<GraphInfo> graphs;
  uint32_t link = 0;
  friend bool operator==(const JobAttached&, const JobAttached&) = default;
};

struct GraphAdded {
  static constexpr MessageType kType{
      .number = 106, .version = 1 + kGraphInfoVersion, .name = "GraphAdded"};
  GraphInfo graph;
  friend bool operator==(const GraphAdded&, const GraphAdded&) = default;
};

struct JobPlaced {
  static constexpr MessageType kType{.number = 107, .name = "JobPlaced", .max_bytes = 64};
  friend bool operator==(const JobPlaced&, const JobPlaced&) = default;
};

struct JobWaits {
  static constexpr MessageType kType{.number = 108, .name = "JobWaits", .max_bytes = 8192};
  uint32_t position = 0;  // in the queue, from 1
  std::string code;       // lanes::reason_code_name
  // As in lanes::Reason.
  int64_t persistent = 0, region = 0, capacity = 0, claimed = 0, largest_free = 0;
  std::string text;          // the sentence
  double estimate_s = -1.0;  // until it runs; < 0: unknown
  friend bool operator==(const JobWaits&, const JobWaits&) = default;
};

struct Text {
  static constexpr MessageType kType{.number = 109, .name = "Text"};
  std::string text;
  friend bool operator==(const Text&, const Text&) = default;
};

struct StatusReply {  // of which the client makes a document (service/status)
  static constexpr MessageType kType{
      .number = 110, .version = 2 + kJobOptionsVersion, .name = "StatusReply"};
  ServiceFacts service;
  lanes::Snapshot core;
};

using AnyReply = std::variant<Failure, Done, Welcome, JobCreated, JobAttached, GraphAdded,
                              JobPlaced, JobWaits, Text, StatusReply>;

// ---- lifeline

struct LifelineHello {  // the first frame, from the client
  static constexpr MessageType kType{.number = 151, .name = "LifelineHello", .max_bytes = 64};
  uint64_t session = 0;
  Token token{};
  friend bool operator==(const LifelineHello&, const LifelineHello&) = default;
};

struct LifelineReady {  // the broker's answer: the session exists
  static constexpr MessageType kType{.number = 152, .name = "LifelineReady", .max_bytes = 64};
  friend bool operator==(const LifelineReady&, const LifelineReady&) = default;
};

struct DescriptorMessage {  // the frame's descriptors are those of this request, or of its reply
  static constexpr MessageType kType{.number = 153, .name = "DescriptorMessage", .max_bytes = 64};
  uint64_t request = 0;
  friend bool operator==(const DescriptorMessage&, const DescriptorMessage&) = default;
};

// A Failure says why the broker hangs up.
using AnyLifeline = std::variant<LifelineHello, LifelineReady, DescriptorMessage, Failure>;

}  // namespace laneway::wire
