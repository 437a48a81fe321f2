// SupervisorSetup: what a supervisor works with: where its programs are, how long it waits for
// what, and the memory and sockets that outlive brokers and workers. Made by main (or a test).
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "memory/os/shared_memory.h"
#include "service/supervisor/limits.h"
#include "service/supervisor/listening_sockets.h"
#include "service/supervisor/restart_rule.h"
#include "service/transport/descriptor.h"
#include "service/wire/supervisor_messages.h"

namespace laneway::service {

struct SupervisorTimes {
  RestartRule::Times restart;
  Duration heartbeat = limits::kHeartbeatPatience;
  Duration worker_start = limits::kWorkerStartPatience;
  Duration hang_up = limits::kHangUpPatience;
  Duration stop = limits::kStopPatience;

  // All of them times `factor`.
  static SupervisorTimes scaled(double factor);
};

struct SupervisorSetup {
  wire::ServiceConfig config;
  std::string programs;  // the folder of laneway-broker and laneway-worker
  uint32_t standby = 1;
  int32_t pid = 0;              // of the supervisor
  int64_t started_unix_ns = 0;  // wall clock
  SupervisorTimes times;
  ListeningSockets sockets;
  Descriptor pool;  // none: it cannot be shared, and each active worker makes one
  memory::SharedMemory journal;
};

}  // namespace laneway::service
