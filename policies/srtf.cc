#include "policies/srtf.h"

#include <span>

namespace laneway::policies {
namespace {

// Unknown is stored as the largest number, so it sorts last by itself. `jobs` is ordered by arrival
// and only a strictly shorter one wins, so ties go to the earliest.
const JobView* shortest(std::span<const JobView* const> jobs) {
  const JobView* best = nullptr;
  for (const JobView* job : jobs) {
    if (best == nullptr || job->remaining_ns < best->remaining_ns) best = job;
  }
  return best;
}

bool leaves_before(const JobView& a, const JobView& b) {
  if (a.ready != b.ready) return !a.ready;
  if (a.remaining_ns != b.remaining_ns) return a.remaining_ns > b.remaining_ns;
  return a.arrival > b.arrival;
}

}  // namespace

AdmitDecision Srtf::admit(TimePoint /*now*/, const View& view) {
  const JobView* best = shortest(view.waiting());
  if (best == nullptr || view.was_tried(*best)) return {};
  return {.job = best->id, .lane = {}, .may_share = share_};
}

JobId Srtf::pick(TimePoint /*now*/, const View& /*view*/, const PickQuestion& question) {
  return shortest(question.candidates)->id;
}

JobId Srtf::evict(TimePoint /*now*/, const View& view, const EvictQuestion& /*question*/) {
  const JobView* first = nullptr;
  for (const LaneView& lane : view.lane_slots()) {
    for (const JobView* job : lane.jobs) {
      if (job->running) continue;
      if (first == nullptr || leaves_before(*job, *first)) first = job;
    }
  }
  return first == nullptr ? JobId() : first->id;
}

}  // namespace laneway::policies
