#include "policies/srtf.h"

#include <span>
#include <vector>

#include "policies/least_useful.h"

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

// With work, those with the longest remaining time leave first, and none for a longer one.
bool stays(const EvictCandidate& one, const JobView& wants) {
  return !one.idle && one.job->remaining_ns < wants.remaining_ns;
}

}  // namespace

AdmitDecision Srtf::admit(TimePoint /*now*/, const View& view) {
  const JobView* best = shortest(view.waiting());
  if (best == nullptr || view.was_tried(*best)) return {};
  return {.job = best->id, .lane = {}, .may_share = share_};
}

PickDecision Srtf::pick(TimePoint /*now*/, const View& /*view*/, const PickQuestion& question) {
  return {.job = shortest(question.candidates)->id};
}

JobId Srtf::evict(TimePoint now, const View& /*view*/, const EvictQuestion& question) {
  std::vector<EvictCandidate> idle;
  const JobView* longest = nullptr;
  for (const EvictCandidate& one : question.candidates) {
    if (one.idle) idle.push_back(one);
    if (one.idle || stays(one, question.wants)) continue;
    if (longest == nullptr || one.job->remaining_ns > longest->remaining_ns) longest = one.job;
  }
  if (!idle.empty()) return least_useful(now, idle);
  return longest == nullptr ? JobId() : longest->id;
}

}  // namespace laneway::policies
