// WorkerRig: plays supervisor and broker for a real laneway-worker: starts it over a pool and a
// journal, tells it what a broker would, drives a real core with its events, and starts another one
// when it died. ProcessJob: a job in it, of which process_client.h is a submitter. One thread; what
// waits, lets the rig do its part meanwhile.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "lanes/core/core_loop.h"
#include "lanes/graph/graph.h"
#include "memory/os/shared_memory.h"
#include "service/supervisor/child_process.h"
#include "service/transport/channel.h"
#include "service/transport/ring_client.h"
#include "service/wire/codec.h"
#include "service/wire/layout.h"
#include "service/wire/standby_messages.h"
#include "service/wire/supervisor_messages.h"
#include "service/wire/worker_messages.h"

namespace laneway::testing {

class ProcessJob;

class WorkerRig final : public lanes::ActionSink {
 public:
  struct Recovery {
    Bytes memory = mib(64);   // 0: none
    std::string wanted = {};  // as wire::ServiceConfig has it
    bool own_pool = false;    // of each worker, dies with it
  };
  explicit WorkerRig(Bytes pool = mib(16), uint32_t lanes = 2, Bytes reserve = {})
      : WorkerRig(pool, lanes, reserve, Recovery()) {}
  explicit WorkerRig(Recovery recovery) : WorkerRig(mib(16), 2, {}, std::move(recovery)) {}
  WorkerRig(Bytes pool, uint32_t lanes, Bytes reserve, Recovery recovery);
  ~WorkerRig() override;

  // Starts a worker (with these fault points armed) and connects to it.
  void start(const std::string& faults = "");
  // Starts a standby that prepares all jobs as they are now, and waits until it has.
  void start_standby();
  // Kills the worker and has the standby take over.
  void take_over();
  // Another broker takes over from this one, with nothing but what is held.
  void replace_broker();
  // Kills the worker, if it lives, and waits until it is gone.
  void kill();
  bool alive();

  // Does what there is to do, waiting at most so long for something.
  void turn(int wait_ms = 20);
  // Turns until `done`; a hang fails the test. A worker that died is followed by another one, if
  // that is wished.
  void until(const std::function<bool()>& done, const char* what);
  // The worker that follows has these fault points, and those after it none.
  void follow_dead_workers(const std::string& faults = "") {
    follows_ = true;
    next_faults_ = faults;
  }
  int deaths() const { return deaths_; }

  // Sends, and turns until the answer is there.
  template <class M>
  wire::from_worker::Any ask(M message, std::vector<service::Descriptor> fds = {}) {
    message.request = ++last_request_;
    send(wire::encode(message), std::move(fds));
    return answer_to(message.request);
  }
  template <class M>
  void tell(const M& message) {
    send(wire::encode(message), {});
  }
  void post(lanes::Event event);
  lanes::Snapshot snapshot();
  // Of a job that is gone: why, if it failed.
  const std::optional<Error>* gone(JobId job) const;
  const Clock& clock() const { return clock_; }
  // What workers leave to those that follow them beside the journal.
  memory::SharedMemory& recovery_memory() { return *recovery_; }
  // All bytes that workers share: pool, journal and recovery memory.
  std::vector<std::byte> shared_bytes() const;

 private:
  friend class ProcessJob;
  friend class ProcessClient;

  void carry_out(const std::vector<lanes::Action>& actions) override;
  struct Process {
    service::ChildProcess process;
    service::Channel supervisor;
  };
  // A worker that is ready.
  Process spawn(const std::string& faults);
  void activate(Process worker);
  void connect();
  void send(const std::vector<std::byte>& bytes, std::vector<service::Descriptor> fds);
  // Of what is told again to a worker that follows, `request` changes meanwhile.
  wire::from_worker::Any answer_to(const uint64_t& request);
  void take(wire::from_worker::Any message);
  void make_core();
  void lose_worker();

  const SteadyClock clock_;
  const uint32_t lanes_;
  const Bytes reserve_;
  memory::SharedMemory pool_;
  memory::SharedMemory journal_;
  const Recovery wanted_;
  std::optional<memory::SharedMemory> recovery_;
  std::optional<service::ChildProcess> process_;
  service::Channel supervisor_;
  service::Channel broker_;
  std::optional<Process> standby_;
  std::unique_ptr<lanes::CoreLoop> core_;
  bool reported_ = false;
  bool follows_ = false;
  std::string next_faults_;
  int deaths_ = 0;
  uint64_t last_request_ = 0;
  std::map<uint64_t, wire::from_worker::Any> answers_;
  std::map<uint64_t, JobId> told_again_;  // requests
  std::map<JobId, std::optional<Error>> gone_;
  std::vector<ProcessJob*> jobs_;
};

// A job, its first graph and what the broker holds of both.
class ProcessJob {
 public:
  struct Form {
    std::string name = "job";
    uint32_t user = 1;
    std::vector<lanes::ImageSlot> slots;
    lanes::Graph graph;
    std::vector<std::byte> initial;  // by slot_offsets; empty: zeros
  };
  ProcessJob(WorkerRig& rig, Form form);
  ~ProcessJob();
  ProcessJob(const ProcessJob&) = delete;
  ProcessJob& operator=(const ProcessJob&) = delete;

  JobId id() const { return JobId(message_.job); }
  const wire::GraphInfo& graph(uint32_t number = 0) const { return graphs_.at(number).info; }
  uint32_t add_graph(const lanes::Graph& graph);
  void close(const std::string& reason = "the test closed it");
  // Its answer, when it was refused.
  const std::optional<Error>& refused() const { return refused_; }

 private:
  friend class WorkerRig;
  friend class ProcessClient;

  struct HeldGraph {
    memory::SharedMemory memory;
    wire::GraphInfo info;
    uint64_t request = 0;
  };
  struct HeldLink {
    service::Descriptor ring, wake, doorbell_write;
    std::map<uint32_t, memory::SharedMemory> segments;
    uint64_t request = 0;  // of the last segment
  };

  // Tells the worker everything; without waiting for answers when `again`.
  void tell_job(bool again);
  void tell_graph(uint32_t number);
  void tell_link(uint32_t number);
  void tell_segment(uint32_t link, uint32_t segment);

  WorkerRig& rig_;
  wire::to_worker::AddJob message_;
  std::optional<memory::SharedMemory> initial_;
  std::map<uint32_t, HeldGraph> graphs_;
  std::map<uint32_t, HeldLink> links_;
  std::optional<Error> refused_;
};

}  // namespace laneway::testing
