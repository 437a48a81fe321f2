// Messages between the supervisor and the processes that it starts. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "base/torch_version.h"
#include "service/wire/message.h"

namespace laneway::wire {

// What lanewayd was started with, as far as the broker and the workers need it.
struct ServiceConfig {
  std::string address;  // ipc://PATH
  std::string device;   // "host", "cuda:N"
  std::string kernels;  // "cpu", "cuda": what graphs are captured for
  std::string policy;   // NAME[:key=value…]
  uint64_t pool_bytes = 0;
  uint64_t reserve_bytes = 0;
  uint64_t recovery_bytes = 0;                 // of the recovery memory; 0: there is none
  uint64_t store_bytes = 0;                    // of the host store; 0: there is none
  uint64_t spill_bytes = 0;                    // of the spill file; 0: there is none
  std::string recovery;                        // parse_recovery; empty: chosen by cost
  std::string prefix;                          // pipeline/prefix.h; empty: by node times
  int64_t alignment = limits::kHostAlignment;  // of images and regions in the pool
  // Whoever attaches it has the same pool; else the active worker makes one, which dies with it.
  bool pool_is_shared = true;
  uint32_t lanes = 0;                // at most so many; 0: as many as pay
  uint32_t max_threads = 0;          // of an iteration of a graph; 0: no bound of the service's own
  uint64_t graph_bytes = 0;          // of resolved graphs, estimated, in all; 0: no bound
  uint32_t lane_sms = 0;             // multiprocessors of each lane's own; 0: all share all
  int64_t copy_bandwidth_per_s = 0;  // of images into the pool, bytes; 0: unlimited
  std::string trace_file;            // empty: none
  std::string log_level;
  std::string log_file;  // empty: standard error
  friend bool operator==(const ServiceConfig&, const ServiceConfig&) = default;
};

enum class WorkerRole : uint8_t { active = 0, standby = 1 };
enum class WorkerState : uint8_t { starting = 0, ready = 1, lost = 2 };

}  // namespace laneway::wire

namespace laneway::wire::supervisor_to_broker {

// The first message. + [ZeroMQ listener, lifeline listener, journal memfd]
struct Start {
  static constexpr MessageType kType{
      .number = 301, .version = 6, .name = "supervisor_to_broker::Start"};
  ServiceConfig config;
  uint64_t wanted_pool_bytes = 0;  // as an operator asked for it; 0: all of the pool
  uint64_t epoch = 0;              // 1 for the first broker, one more for each that follows
  int32_t supervisor_pid = 0;
  int64_t started_unix_ns = 0;  // when lanewayd started, wall clock
  uint64_t journal_bytes = 0;
  friend bool operator==(const Start&, const Start&) = default;
};

struct Held {  // + what was held under the key, in the same order
  static constexpr MessageType kType{.number = 302, .name = "supervisor_to_broker::Held"};
  std::string key;
  std::vector<uint8_t> note;
  friend bool operator==(const Held&, const Held&) = default;
};

struct HeldEnd {  // that was all
  static constexpr MessageType kType{.number = 303, .name = "supervisor_to_broker::HeldEnd"};
  friend bool operator==(const HeldEnd&, const HeldEnd&) = default;
};

// A worker's state changed. + [channel to it] when it is active and ready, and when it is a standby
// that is ready and is to prepare jobs.
struct WorkerUp {
  static constexpr MessageType kType{
      .number = 304, .version = 2, .name = "supervisor_to_broker::WorkerUp"};
  int32_t pid = 0;
  WorkerRole role = WorkerRole::active;
  WorkerState state = WorkerState::starting;
  uint64_t epoch = 0;   // of the active worker: a new one has a higher number
  TorchVersions torch;  // of one that is ready
  friend bool operator==(const WorkerUp&, const WorkerUp&) = default;
};

struct WorkerDown {  // it is dead and reaped: nothing of it writes any more
  static constexpr MessageType kType{.number = 305, .name = "supervisor_to_broker::WorkerDown"};
  int32_t pid = 0;
  int32_t status = 0;  // of waitpid
  friend bool operator==(const WorkerDown&, const WorkerDown&) = default;
};

struct ReopenLog {  // the file may have been moved away
  static constexpr MessageType kType{.number = 308, .name = "supervisor_to_broker::ReopenLog"};
  friend bool operator==(const ReopenLog&, const ReopenLog&) = default;
};

struct Stop {  // end all jobs, tell the clients -> Stopped
  static constexpr MessageType kType{
      .number = 306, .version = 2, .name = "supervisor_to_broker::Stop"};
  std::string failure;  // why the service cannot go on; empty: it was asked to end
  friend bool operator==(const Stop&, const Stop&) = default;
};

// Of a policy from outside the tree: its process started (+ [socket to it]), or there is none.
struct PolicyNews {
  static constexpr MessageType kType{.number = 307, .name = "supervisor_to_broker::PolicyNews"};
  int32_t pid = 0;     // 0: there is none
  std::string reason;  // why the last one ended, or none can be started; empty: none has ended
  friend bool operator==(const PolicyNews&, const PolicyNews&) = default;
};

// Every Hold of this broker up to this number is held, but for those that were refused before.
struct HoldsDone {
  static constexpr MessageType kType{.number = 309, .name = "supervisor_to_broker::HoldsDone"};
  uint64_t number = 0;
  friend bool operator==(const HoldsDone&, const HoldsDone&) = default;
};

// The Hold of this number found no room; what was held under its key before, still is.
struct HoldRefused {
  static constexpr MessageType kType{.number = 310, .name = "supervisor_to_broker::HoldRefused"};
  uint64_t number = 0;
  std::string key;
  std::string why;
  friend bool operator==(const HoldRefused&, const HoldRefused&) = default;
};

using Any = std::variant<Start, Held, HeldEnd, WorkerUp, WorkerDown, Stop, PolicyNews, ReopenLog,
                         HoldsDone, HoldRefused>;

}  // namespace laneway::wire::supervisor_to_broker

namespace laneway::wire::broker_to_supervisor {

struct Hold {  // + descriptors; replaces what the key had -> HoldsDone or HoldRefused
  static constexpr MessageType kType{
      .number = 331, .version = 2, .name = "broker_to_supervisor::Hold"};
  std::string key;
  std::vector<uint8_t> note;
  uint64_t number = 0;  // counted from 1 by each broker
  friend bool operator==(const Hold&, const Hold&) = default;
};

// Another note for what is held, of whose descriptors the first ones stay: it needs no room, so it
// is refused only where a note got too long. Nothing when it is not held. -> as Hold
struct Renote {
  static constexpr MessageType kType{.number = 339, .name = "broker_to_supervisor::Renote"};
  std::string key;
  std::vector<uint8_t> note;
  uint32_t descriptors = 0;
  uint64_t number = 0;
  friend bool operator==(const Renote&, const Renote&) = default;
};

struct Release {  // nothing when it is not held
  static constexpr MessageType kType{.number = 332, .name = "broker_to_supervisor::Release"};
  std::string key;
  friend bool operator==(const Release&, const Release&) = default;
};

struct Heartbeat {
  static constexpr MessageType kType{.number = 333, .name = "broker_to_supervisor::Heartbeat"};
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};

struct ShutdownRequested {  // a client who may asked for the end of the service
  static constexpr MessageType kType{.number = 334,
                                     .name = "broker_to_supervisor::ShutdownRequested"};
  friend bool operator==(const ShutdownRequested&, const ShutdownRequested&) = default;
};

struct Stopped {  // all jobs have ended
  static constexpr MessageType kType{.number = 335, .name = "broker_to_supervisor::Stopped"};
  friend bool operator==(const Stopped&, const Stopped&) = default;
};

struct PolicyChanged {  // for the brokers that follow; a file is started anew
  static constexpr MessageType kType{.number = 336, .name = "broker_to_supervisor::PolicyChanged"};
  std::string policy;
  friend bool operator==(const PolicyChanged&, const PolicyChanged&) = default;
};

struct PoolChanged {  // for the brokers that follow
  static constexpr MessageType kType{.number = 337, .name = "broker_to_supervisor::PoolChanged"};
  uint64_t wanted_bytes = 0;
  friend bool operator==(const PoolChanged&, const PoolChanged&) = default;
};

// The process of the policy is of no more use to this broker: another one is to come.
struct PolicyFailed {
  static constexpr MessageType kType{.number = 338, .name = "broker_to_supervisor::PolicyFailed"};
  int32_t pid = 0;
  std::string why;
  bool hung_up = false;  // it closed its socket, and ends by itself if it has not ended yet
  friend bool operator==(const PolicyFailed&, const PolicyFailed&) = default;
};

using Any = std::variant<Hold, Release, Heartbeat, ShutdownRequested, Stopped, PolicyChanged,
                         PoolChanged, PolicyFailed, Renote>;

}  // namespace laneway::wire::broker_to_supervisor

namespace laneway::wire::supervisor_to_worker {

// The first message of a worker that serves. + [pool when it is shared, journal memfd, recovery
// memory, host store and spill file, where their sizes in the config are not 0] -> Ready
struct Start {
  static constexpr MessageType kType{
      .number = 361, .version = 5, .name = "supervisor_to_worker::Start"};
  ServiceConfig config;
  uint64_t journal_bytes = 0;
  friend bool operator==(const Start&, const Start&) = default;
};

// The predecessor is dead: pool and journal are this worker's now. -> Activated
struct Activate {
  static constexpr MessageType kType{.number = 362, .name = "supervisor_to_worker::Activate"};
  uint64_t epoch = 0;  // of the active worker
  friend bool operator==(const Activate&, const Activate&) = default;
};

struct BrokerChannel {  // + [channel to the broker]; the one before is of no further use
  static constexpr MessageType kType{.number = 363, .name = "supervisor_to_worker::BrokerChannel"};
  uint64_t epoch = 0;  // of the broker
  friend bool operator==(const BrokerChannel&, const BrokerChannel&) = default;
};

struct Stop {
  static constexpr MessageType kType{.number = 364, .name = "supervisor_to_worker::Stop"};
  friend bool operator==(const Stop&, const Stop&) = default;
};

// The first message of one that makes the pool of a device and leaves: `config` as far as it is
// known, pool_bytes 0: as much as a pool may have. -> PoolMade or PoolRefused
struct MakePool {
  static constexpr MessageType kType{
      .number = 365, .version = 2, .name = "supervisor_to_worker::MakePool"};
  ServiceConfig config;
  friend bool operator==(const MakePool&, const MakePool&) = default;
};

struct Ping {  // whether it still reads what it gets -> Pong
  static constexpr MessageType kType{.number = 366, .name = "supervisor_to_worker::Ping"};
  friend bool operator==(const Ping&, const Ping&) = default;
};

using Any = std::variant<Start, Activate, BrokerChannel, Stop, MakePool, Ping>;

}  // namespace laneway::wire::supervisor_to_worker

namespace laneway::wire::worker_to_supervisor {

struct Ready {  // loaded and mapped; a standby waits from here
  static constexpr MessageType kType{
      .number = 381, .version = 2, .name = "worker_to_supervisor::Ready"};
  TorchVersions torch;
  friend bool operator==(const Ready&, const Ready&) = default;
};

struct PoolMade {  // + [pool] when it is shared
  static constexpr MessageType kType{.number = 382, .name = "worker_to_supervisor::PoolMade"};
  uint64_t pool_bytes = 0;
  int64_t alignment = 0;
  bool is_shared = false;
  std::string kernels;
  friend bool operator==(const PoolMade&, const PoolMade&) = default;
};

struct PoolRefused {
  static constexpr MessageType kType{.number = 383, .name = "worker_to_supervisor::PoolRefused"};
  ErrorCode code = ErrorCode::internal;
  std::string message;
  friend bool operator==(const PoolRefused&, const PoolRefused&) = default;
};

struct Activated {  // pool, journal and recovery memory are taken over
  static constexpr MessageType kType{.number = 384, .name = "worker_to_supervisor::Activated"};
  friend bool operator==(const Activated&, const Activated&) = default;
};

struct Pong {
  static constexpr MessageType kType{.number = 385, .name = "worker_to_supervisor::Pong"};
  friend bool operator==(const Pong&, const Pong&) = default;
};

struct Unfit {  // instead of Ready: no other process of this program would be of use either
  static constexpr MessageType kType{.number = 386, .name = "worker_to_supervisor::Unfit"};
  std::string why;
  friend bool operator==(const Unfit&, const Unfit&) = default;
};

using Any = std::variant<Ready, PoolMade, PoolRefused, Activated, Pong, Unfit>;

}  // namespace laneway::wire::worker_to_supervisor
