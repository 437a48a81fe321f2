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

Way way_out(Tier tier) { return tier == Tier::spill ? Way::to_spill : Way::to_store; }

Way way_in(Tier tier) {
  switch (tier) {
    case Tier::none: return Way::first_in;
    case Tier::store: return Way::from_store;
    case Tier::spill: return Way::from_spill;
  }
  return Way::first_in;
}

CopiesOut copies_out(const CoreState& core, Tier tier) {
  Copies copies;
  for (const JobId id : core.leaving) {
    const Job& job = core.job_of(id);
    const bool copies_it = job.state() == JobState::evicting && !job.image.clean;
    if (!copies_it || core.outside.place_of(id).tier != tier) continue;
    copies.add(job.leaving_since, core.view.transfers().time(way_out(tier), job.view.persistent));
  }
  return {.any = copies.any(), .late_from = copies.late_from()};
}

PerTier<CopiesOut> copies_out(const CoreState& core) {
  PerTier<CopiesOut> all;
  for (const Tier tier : kTiers) all[tier] = copies_out(core, tier);
  return all;
}

bool stalls(const CoreState& core, Tier tier) {
  if (copies_out(core, tier).late_from <= core.now) return true;
  Copies copies;
  for (const JobId id : core.coming) {
    if (core.outside.place_of(id).tier != tier) continue;
    const Job& job = core.job_of(id);
    copies.add(job.admitted_at, core.view.transfers().time(way_in(tier), job.view.persistent));
  }
  return copies.late_from() <= core.now;
}

}  // namespace laneway::lanes
