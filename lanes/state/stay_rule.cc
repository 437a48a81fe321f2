#include "lanes/state/stay_rule.h"

#include <algorithm>

#include "lanes/state/copies_out.h"

namespace laneway::lanes {
namespace {

policies::Way way_in(const CoreState& core, const Job& job) {
  return way_in(core.outside.place_of(job.view.id).tier);
}

}  // namespace

TimePoint leaves_from(const Stay& stay) {
  // Far beyond all that is measured, and no product overflows.
  constexpr Duration kLongest = seconds(100'000'000);
  const Duration a_switch = std::clamp(stay.a_switch, Duration(), kLongest);
  if (stay.idle) return stay.used_at + a_switch;
  return stay.placed_at + std::max(a_switch * kBusyStay, kLeastBusyStay);
}

bool is_idle(const Job& job) {
  return !job.view.running && !job.work_announced && job.state() != JobState::held;
}

bool could_leave(const Job& job, bool also_pinned) {
  const bool there =
      job.view.running || job.state() == JobState::held || job.state() == job.at_rest();
  const bool is_whole =
      job.image.state == ImageState::here || job.image.state == ImageState::saving;
  return there && is_whole && (also_pinned || !job.pinned) && !job.ending;
}

void learn_way_in(CoreState& core, const Job& job) {
  core.view.learnt_transfers().learn(way_in(core, job), job.view.persistent - job.image.prefix.size,
                                     core.now - job.admitted_at);
}

Duration switch_time(const CoreState& core, const Job& leaves, const Wish& wish) {
  const policies::TransferRates& rates = core.view.transfers();
  Duration time;
  if (!leaves.image.clean) {
    time = rates.time(way_out(core.outside.cheapest()), leaves.view.persistent);
  }
  if (wish.where != nullptr) {
    const Bytes stayed = core.pool.prefix_of(wish.job.view.id).size;
    const Bytes comes = std::max(wish.job.view.persistent - stayed, Bytes());
    time += rates.time(way_in(core, wish.job), comes);
  }
  return time;
}

}  // namespace laneway::lanes
