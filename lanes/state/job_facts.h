// JobFacts: what a policy from outside is told of a job (policies/advised.h). Plain data.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/job_options.h"
#include "base/time.h"
#include "lanes/state/job.h"

namespace laneway::lanes {

struct JobFacts {
  static constexpr Duration kUnknown = Duration(-1);

  JobId job;
  SessionId session;     // of its client: the edge knows whose that is
  uint64_t arrival = 0;  // 1, 2, 3, … in the order of the offers
  TimePoint offered_at;
  JobOptions options;
  JobState state = JobState::waiting;
  LaneId lane;              // none: it is in none
  uint64_t iterations = 0;  // done so far
  Duration busy;            // device time of them, and of its open turn so far
  Duration iteration;       // of one: measured, else the estimate; 0: nothing is known
  Duration remaining = kUnknown;
  Duration waiting;  // for how long it has waited now for a turn, or to get in
  Bytes persistent;
  Bytes ephemeral;
};

}  // namespace laneway::lanes
