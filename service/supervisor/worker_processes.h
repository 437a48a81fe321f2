// WorkerProcesses: the workers' processes as the supervisor sees them: one active, which has pool,
// journal and rings to itself, and standbys that are loaded and wait. An active worker that died is
// fenced by having been reaped; only then is a standby activated. Each is connected to the broker:
// an activated worker to run jobs, a standby to prepare them. Dead ones are replaced. All workers
// of a service have one minor version of torch, that of the first: what jobs have computed with one
// does not go on with another. Not thread-safe; acts only when it is called.
#pragma once

#include <poll.h>

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "service/supervisor/broker_process.h"
#include "service/supervisor/child_process.h"
#include "service/supervisor/memory_pressure.h"
#include "service/supervisor/restart_rule.h"
#include "service/supervisor/supervisor_setup.h"
#include "service/transport/channel.h"
#include "service/wire/supervisor_messages.h"

namespace laneway::service {

class WorkerProcesses {
 public:
  // Both outlive this object. The broker is notified of every change.
  WorkerProcesses(const SupervisorSetup& setup, BrokerProcess& broker)
      : setup_(setup),
        broker_(broker),
        rule_(setup.times.restart),
        standby_rule_(setup.times.restart),
        watch_(setup.journal_memory(), lane_times(setup)),
        pressure_(setup.vmstat) {}

  // Starts workers that are due, kills one that does not get ready or hangs, activates one when
  // none is, and notifies a broker that does not know them yet of all. Error when there is no
  // process to be had.
  Status tend(TimePoint now);
  TimePoint next_wakeup() const;
  // The caller did not run for so long, and knows nothing of what happened meanwhile: all bounds
  // are that much later.
  void was_late(Duration by);
  // Forgets those that ended; new ones are due, or none ever (given_up).
  void reap(TimePoint now);

  void add_to_poll(std::vector<pollfd>& entries) const;
  // What poll() said of these.
  void handle_ready(const std::vector<pollfd>& entries, TimePoint now);

  bool given_up() const { return start_at_ == TimePoint::never(); }
  // In a sentence. Requires: given_up().
  const std::string& why_given_up() const { return why_given_up_; }
  // An active worker and the present broker are connected.
  bool serving() const { return connected_epoch_ == broker_.epoch() && connected_epoch_ != 0; }
  bool empty() const { return workers_.empty(); }

  // No worker is started from now on; those that are there leave.
  void stop();
  void kill_all();

 private:
  struct Worker {
    ChildProcess process;
    Channel channel;
    TimePoint kill_at;  // unless it gets ready, or ends, before
    wire::WorkerState state = wire::WorkerState::starting;
    bool active = false;
    bool killed = false;
    std::optional<TimePoint> stopped_since{};
    uint64_t connected_to = 0;          // the broker, by its epoch
    std::optional<TimePoint> pinged{};  // and nothing came from it since
    TorchVersions torch{};              // of one that is ready
    // Why it never serves, and the next one of its program would not either; empty: it may.
    std::string unfit{};
  };

  static LaneWatch::Times lane_times(const SupervisorSetup& setup);
  // Kills what is stopped, and the active worker when a lane of it hangs.
  void look(TimePoint now);
  void ping(Worker& worker, TimePoint now);
  // For the successor of an active worker that ended so.
  void note_lack_of_memory(int status, TimePoint now);
  void delay_standby(TimePoint until, TimePoint now, const std::string& why);
  // When one more worker is to be started; never when none is wanted.
  TimePoint due() const;

  Status start(TimePoint now);
  Worker* active();
  bool has_ready() const;
  void activate(Worker& worker, TimePoint now);
  void introduce_all();
  // Standbys that are ready prepare what the broker names them.
  void connect_standbys();
  // Makes the channel between a worker that is ready and the broker, and hands out its ends.
  void connect(Worker& worker);
  void announce(const Worker& worker, std::vector<Descriptor> fds = {});
  void read(Worker& worker, TimePoint now);
  void on_ready(Worker& worker, const TorchVersions& torch);
  void refuse(Worker& worker, const std::string& why);
  void give_up(const std::string& why);
  void kill(Worker& worker, const std::string& why);
  template <class M>
  void notify(Worker& worker, const M& message, std::vector<Descriptor> fds = {});

  const SupervisorSetup& setup_;
  BrokerProcess& broker_;
  std::list<Worker> workers_;
  // Deaths of active workers may end the service. Those of standbys delay the next one.
  RestartRule rule_;
  RestartRule standby_rule_;
  LaneWatch watch_;
  MemoryPressure pressure_;
  TimePoint look_at_;
  TimePoint start_at_;
  TimePoint standby_at_;
  size_t started_ = 0;           // workers, so far
  uint32_t unready_deaths_ = 0;  // in a row, of workers that never got ready
  std::string why_given_up_;
  std::optional<TorchVersions> torch_;  // of the first active worker
  bool stopping_ = false;
  uint64_t active_epoch_ = 0;
  uint64_t introduced_epoch_ = 0;  // the broker that was notified of all workers
  uint64_t connected_epoch_ = 0;   // the broker that has a channel to the active worker
};

}  // namespace laneway::service
