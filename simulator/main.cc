// laneway-simulate: runs the jobs of a trace through the core in virtual time, under each of the
// policies, and says how long they took; or repeats what the core of a service decided.
#include <algorithm>
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "simulator/options.h"
#include "simulator/replay.h"
#include "simulator/report.h"
#include "simulator/simulation.h"

namespace laneway::simulator {
namespace {

int complain(int code, const std::string& what) {
  std::fprintf(stderr, "laneway-simulate: %s\n", what.c_str());
  return code;
}

// What is not in the table, and must not be silent.
void tell_refused(const PolicyRun& run) {
  if (run.summary.refused == 0) return;
  const auto is_refused = [](const JobResult& result) { return result.refused; };
  const auto first = std::find_if(run.results.begin(), run.results.end(), is_refused);
  std::fprintf(stderr, "%s: %llu of %llu jobs were refused, the first of them: %s\n",
               run.policy.c_str(), static_cast<unsigned long long>(run.summary.refused),
               static_cast<unsigned long long>(run.summary.jobs), first->reason.c_str());
}

int simulate(const Options& options) {
  const auto trace = read_jobs(options);
  if (!trace) {
    const bool usage = trace.error().code == ErrorCode::invalid_argument;
    return complain(usage ? kExitUsage : kExitFailed, trace.error().message);
  }
  const std::vector<SimJob>& jobs = trace.value().jobs;
  if (trace.value().without_length > 0) {
    std::fprintf(stderr, "%zu jobs have no length: each is an iteration of a nanosecond\n",
                 trace.value().without_length);
  }
  if (trace.value().idle > 0) {
    std::fprintf(stderr, "%llu jobs of the record ran no iteration and are left out\n",
                 static_cast<unsigned long long>(trace.value().idle));
  }
  if (trace.value().lost > 0) {
    std::fprintf(stderr,
                 "%llu entries of the record were lost: what they said is not in the jobs\n",
                 static_cast<unsigned long long>(trace.value().lost));
  }
  const auto speeds = read_speeds(options, jobs);
  if (!speeds) return complain(kExitUsage, speeds.error().message);
  std::vector<PolicyRun> runs;
  for (const std::string& policy : options.policies) {
    std::fprintf(stderr, "%s: %zu jobs\n", policy.c_str(), jobs.size());
    auto run = run_policy(options, policy, jobs, speeds.value());
    if (!run) return complain(kExitFailed, run.error().message);
    runs.push_back(std::move(run).value());
    tell_refused(runs.back());
  }
  std::fputs(table_of(runs).c_str(), stdout);
  Status written;
  if (!options.json.empty()) written = write_file(options.json, json_of(options, runs));
  if (written && !options.csv.empty()) {
    written = write_file(options.csv, csv_of(jobs, runs));
  }
  if (written && !options.timeline.empty()) {
    written = write_file(options.timeline, timeline_csv_of(runs));
  }
  return written ? kExitDone : complain(kExitFailed, written.error().message);
}

int repeat(const std::string& record) {
  const auto counts = replay(record);
  if (!counts) return complain(kExitFailed, counts.error().message);
  std::printf("%s\n", replay_text(counts.value()).c_str());
  if (!counts.value().ended) {
    std::fprintf(stderr,
                 "%s has no end: its service still runs or was killed, or the file was cut\n",
                 record.c_str());
  }
  return counts.value().lost == 0 ? kExitDone : kExitFailed;
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
  const Options& options = std::get<Options>(parsed);
  return options.replay.empty() ? simulate(options) : repeat(options.replay);
}
