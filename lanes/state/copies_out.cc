#include "lanes/state/copies_out.h"

#include <algorithm>

namespace laneway::lanes {
namespace {

using policies::Way;

// Copies of one tier wait for each other, a machine has other things to do, and rates vary.
constexpr int64_t kTimesAsLong = 10;

// Copies of one way, that wait for each other.
class Copies {
 public:
  void add(TimePoint since, Duration takes) {
    since_ = std::min(since_, since);
    takes_ += takes;
  }
  bool any() const { return since_ != TimePoint::never(); }
  TimePoint late_from() const {
    if (!any()) return TimePoint::never();
    return since_ + std::max(takes_ * kTimesAsLong, kLeastCopyPatience);
  }

 private:
  TimePoint since_ = TimePoint::never();  // the one that began first
  Duration takes_;
};

}  // namespace

CopiesOut copies_out(const CoreState& core, Tier tier) {
  Copies copies;
  const Way way = tier == Tier::spill ? Way::to_spill : Way::to_store;
  for (const JobId id : core.leaving) {
    const Job& job = core.job_of(id);
    const bool copies_it = job.state() == JobState::evicting && !job.image.clean;
    if (!copies_it || core.outside.place_of(id).tier != tier) continue;
    copies.add(job.leaving_since, core.view.transfers().time(way, job.view.persistent));
  }
  return {.any = copies.any(), .late_from = copies.late_from()};
}

bool stalls(const CoreState& core, Tier tier) {
  if (copies_out(core, tier).late_from <= core.now) return true;
  Copies copies;
  const Way way = tier == Tier::spill ? Way::from_spill : Way::from_store;
  for (const JobId id : core.coming) {
    if (core.outside.place_of(id).tier != tier) continue;
    const Job& job = core.job_of(id);
    copies.add(job.admitted_at, core.view.transfers().time(way, job.view.persistent));
  }
  return copies.late_from() <= core.now;
}

}  // namespace laneway::lanes
