// SupervisorSetup: what a supervisor works with: where its programs are, how long it waits for
// what, and the memory and sockets that outlive brokers and workers. Made by main (or a test).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "memory/os/shared_memory.h"
#include "memory/os/spill_file.h"
#include "service/journal/journal_layout.h"
#include "service/supervisor/lane_watch.h"
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
  Duration activation = limits::kActivationPatience;
  Duration stopped = limits::kStoppedPatience;
  LaneWatch::Times lanes;
  Duration late = limits::kLate;
  Duration stop = limits::kStopPatience;

  // All of them times `factor`.
  static SupervisorTimes scaled(double factor);
};

struct SupervisorSetup {
  wire::ServiceConfig config;
  std::string programs;  // the folder of laneway-broker
  std::string worker;    // the program laneway-worker
  uint32_t standby = 1;
  bool standbys_prepare = true;         // the jobs that the broker names
  std::string vmstat = "/proc/vmstat";  // MemoryPressure looks there
  int32_t pid = 0;                      // of the supervisor
  int64_t started_unix_ns = 0;          // wall clock
  SupervisorTimes times;
  ListeningSockets sockets;
  Descriptor pool;  // none: it cannot be shared, and each active worker makes one
  memory::SharedMemory journal;
  std::optional<memory::SharedMemory> recovery{};  // none when config.recovery_bytes is 0

  // Where images can be that are not in the pool; none when their sizes in the config are 0.
  std::optional<memory::SharedMemory> store{};
  std::optional<memory::SpillFile> spill{};

  JournalMemory& journal_memory() const {
    return *reinterpret_cast<JournalMemory*>(journal.data());
  }
  // Requests of all jobs that are over so far.
  uint64_t requests_ended() const {
    return journal_memory().header.ended.load(std::memory_order_relaxed);
  }
};

}  // namespace laneway::service
