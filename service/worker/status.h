// Status: what an operator wants to know, as JSON in the form of `laneway status --json`: service,
// pool, workers, regions, lanes, jobs; and "map", who holds which bytes of the pool. Unknown is
// null. nlohmann-json is named in status.cc alone.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lanes/snapshot.h"
#include "service/worker/worker_job.h"

namespace laneway::service {

struct ServiceFacts {
  int64_t pid = 0;
  std::string version;
  std::string device;
  std::string user;  // owner of embedded jobs
  double uptime_s = 0;
};

std::string status_json(const ServiceFacts& service, const lanes::Snapshot& snapshot);

// One job: its line of the status (null when the core has forgotten it), its slots' places in the
// image and, per graph, what is known of its memory; with tapes, the one that is planned and the
// one that capture predicts: each allocation as [bytes, frees_before], the frees in order, and as
// marks [allocations, frees] by the start of each node and the end of the last (none when not
// known).
std::string job_json(const lanes::Snapshot& snapshot, const WorkerJob& job,
                     const std::vector<std::pair<GraphHandle, GraphPlan>>& plans,
                     const std::string& user, bool with_tapes);

}  // namespace laneway::service
