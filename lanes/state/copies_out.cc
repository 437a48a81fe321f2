#include "lanes/state/copies_out.h"

#include <algorithm>

namespace laneway::lanes {
namespace {

// Copies of one tier wait for each other, a machine has other things to do, and rates vary.
constexpr int64_t kTimesAsLong = 10;

}  // namespace

CopiesOut copies_out(const CoreState& core, Tier tier) {
  CopiesOut out;
  if (core.leaving.empty()) return out;
  const policies::Way way = tier == Tier::spill ? policies::Way::to_spill : policies::Way::to_store;
  Duration expected;
  TimePoint since = TimePoint::never();
  for (const JobId id : core.leaving) {
    const Job& job = core.job_of(id);
    const bool copies = job.state() == JobState::evicting && !job.clean;
    if (!copies || core.outside.place_of(id).tier != tier) continue;
    expected += core.view.transfers().time(way, job.view.persistent);
    since = std::min(since, job.leaving_since);
  }
  if (since == TimePoint::never()) return out;
  return {.any = true, .late_from = since + std::max(expected * kTimesAsLong, kLeastCopyPatience)};
}

}  // namespace laneway::lanes
