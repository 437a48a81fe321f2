// SimJob: a job of a trace, as the simulator plays it: when it comes, what it computes, what it
// holds, what its client says of it. JobResult: what became of it. Plain data.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/job_options.h"
#include "base/time.h"

namespace laneway::simulator {

// Of a job that ends: what it takes alone.
inline constexpr Duration kLongestJob = Duration(INT64_MAX / 4);

struct SimJob {
  // As its client gives them; `total_iterations` is what it says, `iterations` what it does.
  JobOptions options = {};
  TimePoint submit = TimePoint();
  uint64_t iterations = 1;               // UINT64_MAX: without end
  Duration iteration = milliseconds(1);  // alone on the device; above 0
  Bytes persistent;
  Bytes ephemeral;
  Duration estimate = Duration();  // of an iteration, told with the offer; 0: none
  // Its client submits the next iteration so long after a result; 0: all are there from the start.
  Duration gap = Duration();
  uint64_t in_flight = 1;  // iterations that a client with a gap has submitted at a time
  bool writes = true;      // its iterations change its image
  uint64_t context_key = 0;
  std::string kind = {};  // the model that it trains; empty: not known
};

struct JobResult {
  uint32_t device = 1;
  TimePoint admitted = TimePoint::never();
  TimePoint begun = TimePoint::never();  // its first iteration
  TimePoint ended = TimePoint::never();  // its last one; or when it was refused
  bool refused = false;
  std::string reason;  // why
  uint64_t iterations = 0;
  uint64_t preemptions = 0;  // turns that ended with work left, and whose lane another job had next
  uint64_t evictions = 0;
  Duration busy;          // an iteration of it ran
  Duration work;          // the same, in time alone on the device
  Duration waited;        // it had work, and none of it ran
  Duration longest_wait;  // … at a time
};

}  // namespace laneway::simulator
