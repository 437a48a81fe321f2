// JobOffered: what the core is told of a job when it asks for admission. A header of its own,
// because a worker's report repeats it for every job that it knows. Plain data.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/job_options.h"
#include "base/time.h"

namespace laneway::lanes {

// A job asks for admission. Ids are given by the edge.
struct JobOffered {
  JobId job;
  SessionId session;
  JobOptions options;
  Duration iteration_estimate;  // 0: unknown
  Bytes persistent;             // the image, exact
  Bytes ephemeral;              // what a region must have for it, estimated until probed
  uint64_t context_key = 0;     // jobs with different keys never run at the same time
};

}  // namespace laneway::lanes
