#include "policies/srtf.h"

#include <cstdint>

namespace laneway::policies {

int64_t Srtf::rank(TimePoint /*now*/, const View& /*view*/, const JobView& job) const {
  return oracle_.remaining(job).ns();
}

TurnRank Srtf::turn_rank(TimePoint now, const View& view, const JobView& job) const {
  return {.value = Oracle::is_unmeasured(job) ? INT64_MIN : rank(now, view, job)};
}

PickDecision Srtf::pick(TimePoint now, const View& view, const PickQuestion& question) {
  const JobView* unknown = Oracle::unmeasured(question.candidates);
  if (unknown != nullptr) return {.job = unknown->id, .budget = Oracle::kMeasuring};
  const JobView& shortest = *first_of(now, view, question.candidates);
  return {.job = shortest.id, .budget = oracle_.turn_of(shortest)};
}

}  // namespace laneway::policies
