// Report: a run's results as text, JSON and CSV. Pure functions; equal results are equal bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/options.h"
#include "simulator/simulator.h"
#include "simulator/summary.h"
#include "simulator/timeline.h"

namespace laneway::simulator {

struct PolicyRun {
  std::string policy;  // as given
  Summary summary;
  std::vector<JobResult> results;   // in the order of the jobs
  std::vector<Timeline> timelines;  // of each device
};

std::string json_of(const Options& options, const std::vector<PolicyRun>& runs);
// A header, then a line for each job of each policy. Times that there are not are empty.
std::string csv_of(const std::vector<SimJob>& jobs, const std::vector<PolicyRun>& runs);
// A header, then a line for each step of each device under each policy.
std::string timeline_csv_of(const std::vector<PolicyRun>& runs);
std::string table_of(const std::vector<PolicyRun>& runs);

}  // namespace laneway::simulator
