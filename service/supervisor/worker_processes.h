// WorkerProcesses: the workers' processes as the supervisor sees them: one active, which has pool,
// journal and rings to itself, and standbys that are loaded and wait. An active worker that died is
// fenced by having been reaped; only then is a standby activated, and only an activated worker is
// connected to the broker. Dead ones are replaced. Not thread-safe; acts only when it is called.
#pragma once

#include <poll.h>

#include <cstdint>
#include <list>
#include <vector>

#include "base/time.h"
#include "service/supervisor/broker_process.h"
#include "service/supervisor/child_process.h"
#include "service/supervisor/restart_rule.h"
#include "service/supervisor/supervisor_setup.h"
#include "service/transport/channel.h"
#include "service/wire/supervisor_messages.h"

namespace laneway::service {

class WorkerProcesses {
 public:
  // Both outlive this object. The broker is notified of every change.
  WorkerProcesses(const SupervisorSetup& setup, BrokerProcess& broker)
      : setup_(setup), broker_(broker), rule_(setup.times.restart) {}

  // Starts workers that are due, kills one that does not get ready, activates one when none is,
  // and notifies a broker that does not know them yet of all. Error when there is no process to be
  // had.
  Status tend(TimePoint now);
  TimePoint next_wakeup() const;
  // Forgets those that ended; new ones are due, or none ever (given_up).
  void reap(TimePoint now);

  void add_to_poll(std::vector<pollfd>& entries) const;
  // What poll() said of these.
  void handle_ready(const std::vector<pollfd>& entries, TimePoint now);

  bool given_up() const { return start_at_ == TimePoint::never(); }
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
  };

  Status start(TimePoint now);
  // One more worker is needed: an active one first, its standbys when it is ready.
  bool wants_more() const;
  Worker* active();
  void activate(Worker& worker);
  void introduce_all();
  // Makes the channel between the active worker and the broker, and hands out its ends.
  void connect(Worker& worker);
  void announce(const Worker& worker, std::vector<Descriptor> fds = {});
  void read(Worker& worker, TimePoint now);
  void kill(Worker& worker, const std::string& why);
  template <class M>
  void notify(Worker& worker, const M& message, std::vector<Descriptor> fds = {});

  const SupervisorSetup& setup_;
  BrokerProcess& broker_;
  std::list<Worker> workers_;
  RestartRule rule_;
  TimePoint start_at_;
  bool started_any_ = false;
  bool stopping_ = false;
  uint64_t active_epoch_ = 0;
  uint64_t introduced_epoch_ = 0;  // the broker that was notified of all workers
  uint64_t connected_epoch_ = 0;   // the broker that has a channel to the active worker
};

}  // namespace laneway::service
