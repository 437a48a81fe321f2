#include "simulator/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace laneway::simulator {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json json_of(const Summary& summary) {
  return {{"jobs", summary.jobs},
          {"refused", summary.refused},
          {"average_jct_s", json_of(summary.average_jct_s)},
          {"p50_jct_s", json_of(summary.p50_jct_s)},
          {"p95_jct_s", json_of(summary.p95_jct_s)},
          {"p99_jct_s", json_of(summary.p99_jct_s)},
          {"makespan_s", json_of(summary.makespan_s)},
          {"average_wait_s", json_of(summary.average_wait_s)},
          {"preemptions", summary.counts.preemptions},
          {"evictions", summary.counts.evictions},
          {"turns", summary.counts.turns},
          {"events", summary.counts.events},
          {"moved_in_bytes", summary.counts.moved_in.count()},
          {"moved_out_bytes", summary.counts.moved_out.count()}};
}

// Whole nanoseconds as seconds, exactly.
std::string seconds_text(int64_t ns) {
  std::array<char, 40> text{};
  const auto s = static_cast<long long>(ns / 1'000'000'000);
  const auto rest = static_cast<long long>(ns % 1'000'000'000);
  const int size = std::snprintf(text.data(), text.size(), "%lld.%09lld", s, rest);
  return {text.data(), static_cast<size_t>(size)};
}

std::string time_text(TimePoint time) {
  return time == TimePoint::never() ? "" : seconds_text(time.ns());
}

std::string csv_line(const std::string& policy, const SimJob& job, const JobResult& result) {
  const bool ended = !result.refused && result.ended != TimePoint::never();
  std::string line = policy + "," + job.options.name + "," + time_text(job.submit);
  line += "," + time_text(result.admitted) + "," + time_text(result.begun);
  line += "," + (ended ? time_text(result.ended) : "");
  line += "," + (ended ? seconds_text((result.ended - job.submit).ns()) : "");
  line += "," + seconds_text(result.waited.ns()) + "," + seconds_text(result.busy.ns());
  line += "," + std::to_string(result.iterations) + "," + std::to_string(result.preemptions);
  line += "," + std::to_string(result.evictions) + "," + (result.refused ? "1" : "0");
  line += "," + std::to_string(result.device) + "\n";
  return line;
}

std::string number_text(const std::optional<double>& value) {
  if (!value) return "-";
  std::array<char, 40> text{};
  const int size = std::snprintf(text.data(), text.size(), "%.3f", *value);
  return {text.data(), static_cast<size_t>(size)};
}

}  // namespace

std::string json_of(const Options& options, const std::vector<PolicyRun>& runs) {
  Json policies = Json::object();
  for (const PolicyRun& run : runs) policies[run.policy] = json_of(run.summary);
  Json document = {
      {"policies", policies},
      {"trace", options.trace.empty() ? Json(nullptr) : Json(options.trace)},
      {"generated", options.generate > 0 ? Json(options.generate) : Json(nullptr)},
      {"seed", options.seed},
      {"jitter", options.jitter},
      {"turn_gap_s", options.turn_gap.seconds()},
      {"set", options.settings},
      {"devices", options.devices},
      {"lanes", options.lanes},
      {"open_lanes", options.measure_lanes ? "measured" : "all"},
      {"pairs", options.pairs.empty() ? Json(nullptr) : Json(options.pairs)},
      {"calibration", options.calibration ? Json(options.calibration_file) : Json(nullptr)},
      {"memory_bytes", nullptr}};
  if (options.memory) document["memory_bytes"] = options.memory->count();
  return document.dump(2) + "\n";
}

std::string csv_of(const std::vector<SimJob>& jobs, const std::vector<PolicyRun>& runs) {
  std::string text =
      "policy,job_id,submit_s,admitted_s,begun_s,ended_s,jct_s,wait_s,busy_s,iterations,"
      "preemptions,evictions,refused,device\n";
  for (const PolicyRun& run : runs) {
    for (size_t i = 0; i < jobs.size(); ++i) text += csv_line(run.policy, jobs[i], run.results[i]);
  }
  return text;
}

std::string timeline_csv_of(const std::vector<PolicyRun>& runs) {
  std::string text = "policy,device,from_s,to_s,busy_lanes,memory_bytes\n";
  for (const PolicyRun& run : runs) {
    for (size_t device = 0; device < run.timelines.size(); ++device) {
      for (const Timeline::Step& step : run.timelines[device].steps()) {
        text += run.policy + "," + std::to_string(device + 1) + "," + time_text(step.from) + "," +
                time_text(step.to) + "," + number_text(step.busy_lanes) + "," +
                std::to_string(std::llround(step.memory_bytes)) + "\n";
      }
    }
  }
  return text;
}

std::string table_of(const std::vector<PolicyRun>& runs) {
  std::vector<std::vector<std::string>> rows = {{"policy", "jobs", "refused", "average JCT s",
                                                 "p50 s", "p95 s", "p99 s", "makespan s",
                                                 "average wait s", "preemptions", "evictions"}};
  for (const PolicyRun& run : runs) {
    const Summary& sum = run.summary;
    rows.push_back({run.policy, std::to_string(sum.jobs), std::to_string(sum.refused),
                    number_text(sum.average_jct_s), number_text(sum.p50_jct_s),
                    number_text(sum.p95_jct_s), number_text(sum.p99_jct_s),
                    number_text(sum.makespan_s), number_text(sum.average_wait_s),
                    std::to_string(sum.counts.preemptions), std::to_string(sum.counts.evictions)});
  }
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    text += row[0] + std::string(widths[0] - row[0].size(), ' ');
    for (size_t i = 1; i < row.size(); ++i) {
      text += std::string(widths[i] - row[i].size() + 2, ' ') + row[i];
    }
    text += "\n";
  }
  return text;
}

}  // namespace laneway::simulator
