#include "policies/edf.h"

#include <algorithm>

namespace laneway::policies {
namespace {

bool has_deadline(const JobView& job) { return job.options.deadline > Duration(); }
TimePoint deadline_of(const JobView& job) {
  return has_deadline(job) ? job.offered_at + job.options.deadline : TimePoint::never();
}

}  // namespace

int64_t Edf::rank(TimePoint /*now*/, const View& /*view*/, const JobView& job) const {
  return deadline_of(job).ns();
}

std::optional<Duration> Edf::late(TimePoint now, const View& view, const JobView& job) const {
  if (!has_deadline(job)) return std::nullopt;
  const TimePoint deadline = deadline_of(job);
  const LaneView* lane = view.lane(job.lane);
  // Far beyond all deadlines, and no sum overflows.
  constexpr Duration kMost = Duration(INT64_MAX / 4);
  Duration demand = oracle_.known_remaining(job).value_or(Duration());
  if (lane != nullptr) {
    for (const JobView* other : lane->jobs) {
      if (other == &job || deadline_of(*other) > deadline) continue;
      demand = std::min(demand + oracle_.known_remaining(*other).value_or(Duration()), kMost);
    }
  }
  const TimePoint done = now + demand;
  if (done <= deadline) return std::nullopt;
  return done - deadline;
}

}  // namespace laneway::policies
