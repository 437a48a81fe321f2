#include "policies/fifo.h"

namespace laneway::policies {

AdmitDecision Fifo::admit(TimePoint /*now*/, const View& view) {
  if (view.waiting().empty()) return {};
  const JobView& head = *view.waiting().front();
  if (view.was_tried(head)) return {};
  return {.job = head.id, .lane = {}, .may_share = share_};
}

JobId Fifo::pick(TimePoint /*now*/, const View& /*view*/, const PickQuestion& question) {
  return question.candidates.front()->id;
}

JobId Fifo::evict(TimePoint /*now*/, const View& view, const EvictQuestion& /*question*/) {
  const JobView* last = nullptr;
  for (const LaneView& lane : view.lane_slots()) {
    for (const JobView* job : lane.jobs) {
      if (job->running) continue;
      const bool better = last == nullptr || (last->ready && !job->ready) ||
                          (last->ready == job->ready && job->arrival > last->arrival);
      if (better) last = job;
    }
  }
  return last == nullptr ? JobId() : last->id;
}

}  // namespace laneway::policies
