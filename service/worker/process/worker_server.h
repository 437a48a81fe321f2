// WorkerServer: the worker as a process: pool and journal that the supervisor has, a Worker over
// them, and a broker that tells it what to do. Until it is activated it is a standby: loaded,
// mapped, and preparing the jobs that the broker names, while it writes nothing that is shared. Or
// it makes the pool of a device for others, and leaves: lanewayd itself knows no device.
//
// Four threads of its own beside the lanes': one polls and reads and never waits for anything
// else (a lane's that waits for its turn may read in its place); one carries out the core's
// actions, in order; one does all other requests, in order, which may take seconds (graphs are
// resolved); one prepares what a standby prepares. A broker that goes away changes nothing here;
// what was read of it is done, and what is answered to it is dropped.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "memory/os/shared_memory.h"
#include "pipeline/outside_images.h"
#include "service/journal/journal.h"
#include "service/journal/recovery_memory.h"
#include "service/transport/channel.h"
#include "service/wire/supervisor_messages.h"
#include "service/worker/common/crash_notes.h"
#include "service/worker/common/task_thread.h"
#include "service/worker/process/broker_channel.h"
#include "service/worker/process/iteration_sender.h"
#include "service/worker/process/job_service.h"
#include "service/worker/process/prepared_jobs.h"
#include "service/worker/worker.h"

namespace laneway::service {

class WorkerServer final : private EventSink {
 public:
  // unavailable when the process has no descriptors left.
  static Result<std::unique_ptr<WorkerServer>> make(Channel supervisor);

  // Serves until the supervisor says stop or goes away; the error says why it could not go on.
  // The process ends then: lanes may still run, and what they write is nobody's any more.
  Status run();

 private:
  WorkerServer(Channel supervisor, Descriptor wake);

  void post(lanes::Event event) override;
  bool carry_out_what_came() override LW_EXCLUDES(reading_);
  void job_gone(JobId job, const std::optional<Error>& why) override;
  // Does not return: the process ends.
  void device_lost(const std::vector<std::pair<JobId, Error>>& why) override;

  // False when the supervisor said stop.
  Result<bool> read_supervisor();
  Status on_start(const wire::supervisor_to_worker::Start& message, std::vector<Descriptor> fds);
  // Host store and spill file, of which the config says the sizes.
  Result<pipeline::OutsideImages> attach_outside(std::span<Descriptor> fds) const;
  Status open_device(const wire::ServiceConfig& config);
  // A worker that makes the pool of a device for those that serve.
  Status on_make_pool(const wire::ServiceConfig& config);
  Result<wire::worker_to_supervisor::PoolMade> make_pool(const wire::ServiceConfig& config,
                                                         std::vector<Descriptor>& fds);
  Status activate();
  Bytes pool_bytes() const { return Bytes(static_cast<int64_t>(config_.pool_bytes)); }
  Bytes reserve_bytes() const { return Bytes(static_cast<int64_t>(config_.reserve_bytes)); }
  void read_broker() LW_EXCLUDES(reading_);
  // Another broker's channel takes the place of the one that was.
  void follow_broker(Channel channel) LW_EXCLUDES(reading_);
  void read_all() LW_REQUIRES(reading_);
  // What another thread read and left comes first.
  Result<std::optional<Frame>> next_frame() LW_REQUIRES(reading_);
  void on_frame(Frame frame);
  // Whether they are carried out: they wait for nobody, and there is nothing before them.
  bool carry_out_now(const Frame& frame);
  bool carry_out_now(const std::vector<lanes::Action>& list);
  void on(wire::to_worker::Any message, std::vector<Descriptor> fds);
  // On the requests' thread.
  void answer(uint64_t epoch, const wire::to_worker::Any& message, std::vector<Descriptor>& fds);
  template <class M>
  wire::from_worker::Any answer_of(const M& message, std::vector<Descriptor>& fds);
  void report(uint64_t epoch);
  // On the requests' thread, before all requests: what a standby was preparing has ended, or this
  // process does.
  void end_preparing();

  const SteadyClock clock_;
  Channel supervisor_;
  const Descriptor wake_;
  BrokerChannel broker_;
  // Whoever reads the broker's channel has it until what was read is carried out or posted.
  Mutex reading_;
  std::optional<Result<std::optional<Frame>>> unread_ LW_GUARDED_BY(reading_);
  wire::ServiceConfig config_;
  std::unique_ptr<adaptor::Backend> backend_;
  std::unique_ptr<memory::MemoryBlock> pool_;  // none before activation, where it cannot be shared
  std::unique_ptr<Journal> journal_;
  std::optional<CrashNotes> crash_notes_;
  std::unique_ptr<RecoveryMemory> recovery_;   // null: there is none
  pipeline::OutsideImages outside_;            // until the worker is activated
  std::optional<IterationSender> iterations_;  // while a trace is written
  std::unique_ptr<Worker> worker_;             // once activated
  const std::shared_ptr<GraphCache> graphs_ = std::make_shared<GraphCache>();
  std::optional<PreparedJobs> prepared_;  // once started
  std::optional<JobService> jobs_;
  bool recovered_ = false;  // what a predecessor left was looked at; the requests' thread's
  TaskThread actions_;
  TaskThread requests_;
};

}  // namespace laneway::service
