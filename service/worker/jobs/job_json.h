// A job as JSON, with what the worker knows of its graphs' memory. nlohmann-json is named in
// job_json.cc alone.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "service/worker/jobs/worker_job.h"

namespace laneway::service {

// One job: its line of the status (`status_line`, JSON as job_line_json gives it, or "null" where
// nobody knows), its image's size and, per graph, what is known of its memory; with tapes, the one
// that is planned and the one that capture predicts: each allocation as [bytes, frees_before], the
// frees in order, and as marks [allocations, frees] by the start of each node and the end of the
// last (none when not known). `recovery`: what happens to it when the worker dies.
std::string job_json(const WorkerJob& job,
                     const std::vector<std::pair<GraphHandle, GraphPlan>>& plans,
                     const RecoveryReport& recovery, const std::string& status_line,
                     bool with_tapes);

}  // namespace laneway::service
