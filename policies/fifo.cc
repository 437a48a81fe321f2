#include "policies/fifo.h"

#include "policies/least_useful.h"

namespace laneway::policies {

AdmitDecision Fifo::admit(TimePoint /*now*/, const View& view) {
  if (view.waiting().empty()) return {};
  const JobView& head = *view.waiting().front();
  if (view.was_tried(head)) return {};
  return {.job = head.id, .lane = {}, .may_share = share_};
}

PickDecision Fifo::pick(TimePoint /*now*/, const View& /*view*/, const PickQuestion& question) {
  return {.job = question.candidates.front()->id};
}

JobId Fifo::evict(TimePoint now, const View& /*view*/, const EvictQuestion& question) {
  return least_useful(now, question.candidates);
}

}  // namespace laneway::policies
