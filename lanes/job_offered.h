// JobOffered: what the core is told of a job when it asks for admission. A header of its own,
// because a worker's report repeats it for every job that it knows. Plain data.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "policies/job_class.h"

namespace laneway::lanes {

using policies::JobClass;

// A job asks for admission. Ids are given by the edge.
struct JobOffered {
  JobId job;
  SessionId session;
  std::string name;
  JobClass job_class = JobClass::training;
  int32_t priority = 0;  // higher goes first where a policy looks at it
  double weight = 1.0;
  uint64_t total_iterations = 0;  // 0: unknown
  Duration iteration_estimate;    // 0: unknown
  Bytes persistent;               // the image, exact
  Bytes ephemeral;                // what a region must have for it, estimated until probed
  uint64_t context_key = 0;       // jobs with different keys never run at the same time
};

}  // namespace laneway::lanes
