// Status: what an operator wants to know, as JSON in the form of `laneway status --json`: service,
// pool, workers, regions, lanes, jobs; and "map", who holds which bytes of the pool. Unknown is
// null. Made by whoever shows it: by the client of a broker, of what travelled
// (wire::StatusReply), and by embedded mode. Torch-free; nlohmann-json is named in status.cc alone.
// Pure functions.
#pragma once

#include <string>

#include "base/ids.h"
#include "lanes/state/snapshot.h"
#include "service/wire/service_facts.h"

namespace laneway::service {

// Also how long waits are likely to take (lanes/core/wait_estimate.h).
std::string status_json(const wire::ServiceFacts& service, const lanes::Snapshot& snapshot);

// The job's line of the status; "null" when the core has forgotten it.
std::string job_line_json(const lanes::Snapshot& snapshot, JobId id, const wire::JobFacts& facts);

}  // namespace laneway::service
