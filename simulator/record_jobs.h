// Jobs of a service's record (lanewayd --trace, service/trace) as the simulator's: when each was
// offered, how many iterations it ran, and what one took on the device, as measured (first
// iterations that measure are left out where others ran), what it holds. What its client's host did
// between two iterations is in none of these.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "simulator/sim_job.h"

namespace laneway::simulator {

struct RecordJobs {
  std::vector<SimJob> jobs;  // that ran an iteration, in the order in which the core heard of them
  uint64_t idle = 0;         // that ran none, and are left out
  uint64_t lost = 0;         // records that the service had no room for
};

// Whether the file begins as a record does; one that can't be read does not.
bool is_record(const std::string& path);
// `estimates`: clients tell what an iteration takes, as measured. The error names the file.
Result<RecordJobs> jobs_of_record(const std::string& path, bool estimates);

}  // namespace laneway::simulator
