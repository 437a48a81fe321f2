#include "policies/sjf.h"

#include <algorithm>
#include <cstdint>

namespace laneway::policies {

bool Sjf::is_begun(const JobView& job) const {
  // One that did more than it named keeps nothing.
  return std::binary_search(begun_.begin(), begun_.end(), job.id) && job.remaining();
}

void Sjf::begin(JobId job) {
  const auto place = std::lower_bound(begun_.begin(), begun_.end(), job);
  if (place == begun_.end() || *place != job) begun_.insert(place, job);
}

int64_t Sjf::rank(TimePoint /*now*/, const View& /*view*/, const JobView& job) const {
  return is_begun(job) ? -1 : oracle_.total(job).ns();
}

void Sjf::begin_if_first(TimePoint now, const View& view, const JobView& job) {
  const int64_t its_rank = rank(now, view, job);
  const auto& waiting = view.waiting();
  const bool is_first = std::none_of(waiting.begin(), waiting.end(), [&](const JobView* other) {
    return Oracle::knows(*other) && rank(now, view, *other) < its_rank;
  });
  if (is_first) begin(job.id);
}

TurnRank Sjf::turn_rank(TimePoint now, const View& view, const JobView& job) const {
  return {.value = Oracle::is_unmeasured(job) ? INT64_MIN : rank(now, view, job)};
}

PickDecision Sjf::pick(TimePoint now, const View& view, const PickQuestion& question) {
  if (const JobView* unknown = Oracle::unmeasured(question.candidates)) {
    // With nobody else who waits it is begun: its turn has no end for who comes later to wait for.
    // One that is ready in an idle lane does not wait: it runs there, in the same numeric context.
    const auto has_waiting = [&](const LaneView& lane) {
      if (lane.id == question.lane.id || lane.ready.empty()) return false;
      const bool runs_now = !lane.running.valid() && lane.ready.size() == 1 &&
                            lane.ready.front()->context_key == unknown->context_key;
      return !runs_now;
    };
    const auto& lanes = view.lane_slots();
    const bool is_alone =
        question.candidates.size() == 1 && std::none_of(lanes.begin(), lanes.end(), has_waiting);
    if (is_alone && unknown->options.total_iterations > 0) begin_if_first(now, view, *unknown);
    return {.job = unknown->id, .budget = Oracle::kMeasuring};
  }
  const JobView& best = *first_of(now, view, question.candidates);
  if (best.remaining() && !is_begun(best)) begin_if_first(now, view, best);
  return {.job = best.id, .budget = oracle_.turn_of(best)};
}

std::optional<PolicyNote> Sjf::note(const JobView& job) const {
  return PolicyNote{.first = is_begun(job) ? 1 : 0};
}

void Sjf::recall(const View& /*view*/, const JobView& job, const PolicyNote& note) {
  if (note.first == 1) begin(job.id);
}

void Sjf::gone(JobId job) { std::erase(begun_, job); }

}  // namespace laneway::policies
