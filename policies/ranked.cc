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
  const JobView* best = nullptr;
  int64_t best_rank = 0;
  for (const JobView* job : view.waiting()) {
    const int64_t its_rank = rank(now, view, *job);
    const bool goes_first = best == nullptr || its_rank < best_rank ||
                            (its_rank == best_rank && turn_of(*job) < turn_of(*best));
    if (!goes_first) continue;
    best = job;
    best_rank = its_rank;
  }
  if (best == nullptr || view.was_tried(*best)) return {};
  return {.job = best->id};
}

PickDecision Ranked::pick(TimePoint now, const View& view, const PickQuestion& question) {
  return {.job = first_of(now, view, question.candidates)->id};
}

EvictDecision Ranked::evict(TimePoint now, const View& view, const EvictQuestion& question) {
  if (!question.overdue && !displaces(question.wants)) {
    return {.job = least_used(now, question.candidates)};
  }
  const auto rank_of = [&](const JobView& job) { return rank(now, view, job); };
  return {.job = first_to_leave(now, question, rank_of)};
}

}  // namespace laneway::policies
