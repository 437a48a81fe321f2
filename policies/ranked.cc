#include "policies/ranked.h"

#include <vector>

#include "policies/least_useful.h"

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
  std::vector<EvictCandidate> idle;
  const JobView* last = nullptr;
  int64_t last_rank = rank(now, view, question.wants);
  for (const EvictCandidate& one : question.candidates) {
    if (one.idle) {
      idle.push_back(one);
      continue;
    }
    const int64_t its_rank = rank(now, view, *one.job);
    if (its_rank < last_rank) continue;
    // Equal ones take turns: who has been there for longest leaves.
    const bool tie = last != nullptr && its_rank == last_rank;
    if (tie && one.job->placed_at >= last->placed_at) continue;
    last = one.job;
    last_rank = its_rank;
  }
  if (!idle.empty()) return least_useful(now, idle);
  return last == nullptr ? JobId() : last->id;
}

}  // namespace laneway::policies
