// Events: the only input of the core, as plain data. The edge makes them (a client's message, a
// worker's report, a timer) and Scheduler::handle(now, event) consumes them one at a time. Given
// the same events, the core decides the same.
#pragma once

#include <cstdint>
#include <variant>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "lanes/job_offered.h"
#include "lanes/report.h"
#include "lanes/turn.h"

namespace laneway::lanes {

// The job's client closed it or died, or it was killed.
struct JobEnded {
  JobId job;
  bool cancelled = false;
};
// The job's queue of submissions went from empty to ready.
struct WorkReady {
  JobId job;
};
// The iterations, time and memory that an ended turn used.
struct TurnEnded {
  TurnId turn;
  TurnEnd end = TurnEnd::idle;
  uint64_t iterations = 0;  // completed in this turn
  Duration busy;            // time spent running them
  bool more_ready = false;  // submissions are still queued
  // The job's region need as known now (planned peak, or estimate); 0: unchanged. After out_of_lane
  // it is a lower bound: the core raises a need that is not above the lane's size to that size and
  // a quarter.
  Bytes ephemeral;
};
// A region's need changed outside a turn (a graph was added to the job).
struct NeedChanged {
  JobId job;
  Bytes ephemeral;
};
// The image's bytes lie at PlaceImage's offset.
struct ImagePlaced {
  JobId job;
};
struct WorkerLost {};
struct CapacityChanged {
  Bytes capacity;
};
struct TimerFired {};
// The whole state of a worker that has started. It rebuilds a core without jobs (made for a new
// broker or worker); a core with jobs ignores it.
struct WorkerReported {
  WorkerReport report;
};

using Event = std::variant<JobOffered, JobEnded, WorkReady, TurnEnded, NeedChanged, ImagePlaced,
                           WorkerLost, CapacityChanged, TimerFired, WorkerReported>;

}  // namespace laneway::lanes
