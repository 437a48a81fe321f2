#include "policies/ranked.h"

#include "policies/first_to_leave.h"

namespace laneway::policies {

const JobView* Ranked::first_of(TimePoint now, const View& view,
                                std::span<const JobView* const> jobs) const {
  const JobView* best = nullptr;
  int64_t best_rank = 0;
  for (const JobView* job : jobs) {
    const int64_t its_rank = rank(now, view, *job);
    if (best != nullptr && its_rank >= best_rank) continue;
    best = job;
    best_rank = its_rank;
  }
  return best;
}

AdmitDecision Ranked::admit(TimePoint now, const View& view) {
  const JobView* best = first_of(now, view, view.waiting());
  if (best == nullptr || view.was_tried(*best)) return {};
  return {.job = best->id};
}

PickDecision Ranked::pick(TimePoint now, const View& view, const PickQuestion& question) {
  return {.job = first_of(now, view, question.candidates)->id};
}

JobId Ranked::evict(TimePoint now, const View& view, const EvictQuestion& question) {
  FirstToLeave leaves(now, rank(now, view, question.wants));
  JobId first;
  for (const EvictCandidate& one : question.candidates) {
    if (leaves.is_first(leaver(one, rank(now, view, *one.job)))) first = one.job->id;
  }
  return first;
}

}  // namespace laneway::policies
