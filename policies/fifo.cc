#include "policies/fifo.h"

#include "policies/least_useful.h"

namespace laneway::policies {

AdmitDecision Fifo::admit(TimePoint /*now*/, const View& view) {
  for (const JobView* job : view.waiting()) {
    if (!view.was_tried(*job)) return {.job = job->id};
    if (!fills_gaps_) break;
  }
  return {};
}

PickDecision Fifo::pick(TimePoint /*now*/, const View& /*view*/, const PickQuestion& question) {
  if (!by_request_) return {.job = question.candidates.front()->id};
  constexpr TurnBudget kOne{.iterations = 1};
  if (question.running != nullptr) return {.job = question.running->id, .budget = kOne};
  const JobView* first = question.candidates.front();
  for (const JobView* job : question.candidates) {
    if (job->ready_since < first->ready_since) first = job;
  }
  return {.job = first->id, .budget = kOne};
}

JobId Fifo::evict(TimePoint now, const View& /*view*/, const EvictQuestion& question) {
  return least_useful(now, question.candidates);
}

}  // namespace laneway::policies
