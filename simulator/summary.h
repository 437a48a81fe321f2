// Summary: what a run came to, over its jobs. Pure functions of results.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/time.h"
#include "simulator/simulator.h"

namespace laneway::simulator {

// Times are of the jobs that ended: refused ones are counted, and are in nothing else. None: no job
// ended.
struct Summary {
  uint64_t jobs = 0;                    // all of them
  uint64_t refused = 0;                 // … of these
  std::optional<double> average_jct_s;  // from a job's submission to its last iteration's end
  std::optional<double> p50_jct_s;  // percentiles: the least that so many of the jobs do not exceed
  std::optional<double> p95_jct_s;
  std::optional<double> p99_jct_s;
  std::optional<double> makespan_s;      // from the first submission to the last end
  std::optional<double> average_wait_s;  // work was there, and none of it ran
  Counts counts;
};

// Of all devices together. The results are of these jobs, in their order.
Summary summary_of(std::span<const SimJob> jobs, std::span<const JobResult> results,
                   const Counts& counts);

}  // namespace laneway::simulator
