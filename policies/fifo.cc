#include "policies/fifo.h"

#include "policies/first_to_leave.h"

namespace laneway::policies {

AdmitDecision Fifo::admit(TimePoint /*now*/, const View& view) {
  const JobView* first = nullptr;
  const auto turn = [this](const JobView& job) { return by_request_ ? job.queue : turn_of(job); };
  // Where no image can leave, nobody stands behind others who came later.
  const bool by_turn = by_request_ || !view.pool().may_leave;
  for (const JobView* job : view.waiting()) {
    if (fills_gaps_ && view.was_tried(*job)) continue;
    if (first == nullptr || turn(*job) < turn(*first)) first = job;
    if (by_turn) break;
  }
  if (first == nullptr || view.was_tried(*first)) return {};
  return {.job = first->id};
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

EvictDecision Fifo::evict(TimePoint now, const View& /*view*/, const EvictQuestion& question) {
  const auto equal = [](const JobView& /*job*/) { return int64_t{0}; };
  return {.job = first_to_leave(now, question, equal, by_request_)};
}

}  // namespace laneway::policies
