// JobOffered: the description of a job that asks the core for admission. It has a header of its
// own, because a worker's report repeats it for every job. Plain data.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/job_options.h"
#include "base/time.h"

namespace laneway::lanes {

// A job asks for admission. The edge assigns the ids.
struct JobOffered {
  JobId job;
  SessionId session;
  JobOptions options;
  // When its client asked for it, which a core that takes over learns from the offer alone; zero
  // (or a time to come): now.
  TimePoint offered_at = TimePoint();
  // Of one, as measured by jobs with equal graphs; 0: unknown.
  Duration iteration_estimate = Duration();
  Bytes persistent;          // the image, exact
  Bytes ephemeral;           // the region that it needs, estimated until probed
  uint64_t context_key = 0;  // jobs with different keys never run at the same time
};

}  // namespace laneway::lanes
