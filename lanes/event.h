// Events: everything the core ever learns, as plain data. The edge makes them (a client's message,
// a worker's report, a timer) and Scheduler::handle(now, event) consumes them one at a time. The
// core given the same events decides identically.
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
// What an ended turn really used.
struct TurnEnded {
  TurnId turn;
  TurnEnd end = TurnEnd::idle;
  uint64_t iterations = 0;  // completed in this turn
  Duration busy;            // time spent running them
  bool more_ready = false;  // submissions are still queued
  // The job's region need as known now (planned peak, or estimate); 0: as before. After out_of_lane
  // what it needs at least: one that is not above the lane's size is raised by a quarter of that.
  Bytes ephemeral;
};
// A region's need changed outside a turn (a graph was added to the job).
struct NeedChanged {
  JobId job;
  Bytes ephemeral;
};
// The image's bytes are where PlaceImage said.
struct ImagePlaced {
  JobId job;
};
struct WorkerLost {};
struct CapacityChanged {
  Bytes capacity;
};
struct TimerFired {};
// A worker that is up says everything it knows. Rebuilds a core that knows no job yet (made anew
// for a new broker or worker); one that knows jobs ignores it.
struct WorkerReported {
  WorkerReport report;
};

using Event = std::variant<JobOffered, JobEnded, WorkReady, TurnEnded, NeedChanged, ImagePlaced,
                           WorkerLost, CapacityChanged, TimerFired, WorkerReported>;

}  // namespace laneway::lanes
