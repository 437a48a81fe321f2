#include "policies/sjf.h"

#include <algorithm>

namespace laneway::policies {

int64_t Sjf::rank(TimePoint /*now*/, const View& /*view*/, const JobView& job) const {
  return oracle_.total(job).ns();
}

PickDecision Sjf::pick(TimePoint now, const View& view, const PickQuestion& question) {
  const JobView* unknown = Oracle::unmeasured(question.candidates);
  if (unknown != nullptr) return {.job = unknown->id, .budget = Oracle::kMeasuring};
  in_service_.resize(view.max_lanes());
  JobId& kept = in_service_[question.lane.id.value() - 1];
  for (const JobView* job : question.candidates) {
    // One that did more than it named keeps nothing.
    if (job->id == kept && job->remaining()) {
      return {.job = kept, .budget = oracle_.turn_of(*job)};
    }
  }
  const JobView& best = *first_of(now, view, question.candidates);
  if (best.remaining()) kept = best.id;
  return {.job = best.id, .budget = oracle_.turn_of(best)};
}

void Sjf::gone(JobId job) { std::replace(in_service_.begin(), in_service_.end(), job, JobId()); }

}  // namespace laneway::policies
