#include "simulator/summary.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace laneway::simulator {
namespace {

// Requires: `ascending` is not empty.
double percentile(const std::vector<Duration>& ascending, double part) {
  const auto rank = static_cast<size_t>(std::ceil(part * static_cast<double>(ascending.size())));
  return ascending[std::max<size_t>(rank, 1) - 1].seconds();
}

}  // namespace

Summary summary_of(std::span<const SimJob> jobs, std::span<const JobResult> results,
                   const Counts& counts) {
  Summary summary;
  summary.counts = counts;
  std::vector<Duration> jcts;
  double jct_s = 0;
  double wait_s = 0;
  TimePoint first = TimePoint::never();
  TimePoint last;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const JobResult& result = results[i];
    first = std::min(first, jobs[i].submit);
    summary.refused += result.refused;
    if (result.refused || result.ended == TimePoint::never()) continue;
    jcts.push_back(result.ended - jobs[i].submit);
    jct_s += jcts.back().seconds();
    wait_s += result.waited.seconds();
    last = std::max(last, result.ended);
  }
  summary.jobs = jobs.size();
  if (jcts.empty()) return summary;
  std::sort(jcts.begin(), jcts.end());
  summary.average_jct_s = jct_s / static_cast<double>(jcts.size());
  summary.average_wait_s = wait_s / static_cast<double>(jcts.size());
  summary.p50_jct_s = percentile(jcts, 0.50);
  summary.p95_jct_s = percentile(jcts, 0.95);
  summary.p99_jct_s = percentile(jcts, 0.99);
  summary.makespan_s = (last - first).seconds();
  return summary;
}

}  // namespace laneway::simulator
