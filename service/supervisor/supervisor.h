// Supervisor: the loop of lanewayd. It waits for signals, for what the broker asks and for times
// that come, and keeps broker and workers running until the service has to end; then jobs end
// first, workers and broker leave, and whoever does not is killed. It reads nothing that a client
// sent. One thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/time.h"
#include "service/supervisor/broker_process.h"
#include "service/supervisor/policy_process.h"
#include "service/supervisor/signal_queue.h"
#include "service/supervisor/supervisor_setup.h"
#include "service/supervisor/worker_processes.h"

namespace laneway::service {

class Supervisor {
 public:
  // All outlive this object; `signals` was made before any child.
  Supervisor(const SupervisorSetup& setup, SignalQueue& signals, const Clock& clock)
      : setup_(setup),
        signals_(signals),
        clock_(clock),
        broker_(setup),
        workers_(setup, broker_),
        policy_(
            PolicyProcess::Times{.restart = setup.times.restart, .hang_up = setup.times.hang_up}) {}

  // Until the end of the service: the exit code. `on_ready` is called once, when a broker serves
  // and an active worker is connected to it. Afterwards no child is left.
  int run(const std::function<void()>& on_ready);

 private:
  enum class Phase : uint8_t { running, ending_jobs, leaving };

  void wait(TimePoint now);
  // `now`; a process that was stopped, with the service or alone, makes all bounds later first.
  TimePoint punctual(TimePoint now);
  void on_signals(TimePoint now);
  // Its file may have been moved away; the broker writes into it too.
  void reopen_log();
  // What is due in this phase. False: all is over.
  bool tend(TimePoint now);
  void tend_running(TimePoint now);
  // The process of a policy from outside the tree, and each broker's socket to it.
  void tend_policy(TimePoint now);
  // Whether there is a broker that talks to the policy's process, and which one.
  void follow_broker(TimePoint now);
  // Whether clients still find the service; said once, and when they do again.
  void look_at_sockets(TimePoint now);
  void stop(TimePoint now, int exit_code, const std::string& why);

  const SupervisorSetup& setup_;
  SignalQueue& signals_;
  const Clock& clock_;
  BrokerProcess broker_;
  WorkerProcesses workers_;
  PolicyProcess policy_;
  uint64_t policy_set_ = 0;    // of broker_.policy_changes(), and one more: at the start
  uint64_t policy_epoch_ = 0;  // the broker that is its partner; 0: none
  std::function<void()> on_ready_;
  Phase phase_ = Phase::running;
  TimePoint look_at_;  // at the sockets' files
  std::optional<std::string> sockets_lost_;
  TimePoint kill_at_ = TimePoint::never();
  TimePoint waits_since_;                       // the last wait
  TimePoint waits_until_ = TimePoint::never();  // at most
  int exit_code_ = 0;
};

}  // namespace laneway::service
