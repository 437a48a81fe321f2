#include "policies/sjf.h"

#include <algorithm>

namespace laneway::policies {

int64_t Sjf::rank(TimePoint /*now*/, const View& /*view*/, const JobView& job) const {
  return oracle_.total(job).ns();
}

PickDecision Sjf::pick(TimePoint now, const View& view, const PickQuestion& question) {
  in_service_.resize(view.max_lanes());
  JobId& kept = in_service_[question.lane.id.value() - 1];
  if (const JobView* unknown = Oracle::unmeasured(question.candidates)) {
    // With nobody else there it is begun: its turn has no end for who comes later to wait for.
    const bool is_begun = question.candidates.size() == 1 && unknown->options.total_iterations > 0;
    if (is_begun && !kept.valid()) kept = unknown->id;
    return {.job = unknown->id, .budget = Oracle::kMeasuring};
  }
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

std::optional<PolicyNote> Sjf::note(const JobView& job) const {
  const size_t slot = job.lane.value() - 1;
  return PolicyNote{.first = slot < in_service_.size() && in_service_[slot] == job.id ? 1 : 0};
}

void Sjf::recall(const View& view, const JobView& job, const PolicyNote& note) {
  in_service_.resize(view.max_lanes());
  JobId& kept = in_service_[job.lane.value() - 1];
  if (note.first == 1 && !kept.valid()) kept = job.id;
}

void Sjf::gone(JobId job) { std::replace(in_service_.begin(), in_service_.end(), job, JobId()); }

}  // namespace laneway::policies
