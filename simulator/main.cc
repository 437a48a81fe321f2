// laneway-simulate: runs the jobs of a trace through the core in virtual time, under each of the
// policies, and says how long they took.
#include <algorithm>
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "simulator/job_trace.h"
#include "simulator/options.h"
#include "simulator/report.h"
#include "simulator/simulation.h"

namespace laneway::simulator {
namespace {

int complain(int code, const std::string& what) {
  std::fprintf(stderr, "laneway-simulate: %s\n", what.c_str());
  return code;
}

int simulate(const Options& options) {
  const auto jobs = read_jobs(options.trace, options.estimates);
  if (!jobs) return complain(kExitUsage, jobs.error().message);
  std::vector<PolicyRun> runs;
  for (const std::string& policy : options.policies) {
    std::fprintf(stderr, "%s: %zu jobs\n", policy.c_str(), jobs.value().size());
    auto run = run_policy(options, policy, jobs.value());
    if (!run) return complain(kExitFailed, run.error().message);
    runs.push_back(std::move(run).value());
    const Summary& summary = runs.back().summary;
    if (summary.refused == 0) continue;
    std::fprintf(stderr, "%s: %llu of %llu jobs were refused\n", policy.c_str(),
                 static_cast<unsigned long long>(summary.refused),
                 static_cast<unsigned long long>(summary.jobs));
    const auto is_refused = [](const JobResult& result) { return result.refused; };
    const auto& results = runs.back().results;
    const auto first = std::find_if(results.begin(), results.end(), is_refused);
    std::fprintf(stderr, "  the first of them: %s\n", first->reason.c_str());
  }
  std::fputs(table_of(runs).c_str(), stdout);
  Status written;
  if (!options.json.empty()) written = write_file(options.json, json_of(options, runs));
  if (written && !options.csv.empty()) {
    written = write_file(options.csv, csv_of(jobs.value(), runs));
  }
  return written ? kExitDone : complain(kExitFailed, written.error().message);
}

}  // namespace
}  // namespace laneway::simulator

int main(int argc, char** argv) {
  using namespace laneway::simulator;  // NOLINT: the program's own
  const auto parsed = parse_options({argv + 1, argv + argc});
  if (const auto* leave = std::get_if<Leave>(&parsed)) {
    std::fputs(leave->text.c_str(), leave->code == kExitDone ? stdout : stderr);
    return leave->code;
  }
  return simulate(std::get<Options>(parsed));
}
