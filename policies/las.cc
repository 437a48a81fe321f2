#include "policies/las.h"

#include <algorithm>

namespace laneway::policies {
namespace {

constexpr int64_t kQueues = 4;
constexpr double kFactor = 10;

struct Place {
  int64_t queue = 0;
  double left_ns = 0;  // until it falls into the next queue, in nanoseconds of the whole pool
};

Place place_of(Duration threshold, double attained_ns) {
  auto limit_ns = static_cast<double>(threshold.ns());
  Place place;
  while (place.queue < kQueues - 1 && attained_ns >= limit_ns) {
    ++place.queue;
    limit_ns *= kFactor;
  }
  if (place.queue < kQueues - 1) place.left_ns = limit_ns - attained_ns;
  return place;
}

}  // namespace

Las::Las(PolicyOptions& options)
    : threshold_(options.time("threshold_s", seconds(1), seconds(1'000'000))),
      by_pool_(options.choice("width", {"pool", "one"}) == 0) {}

double Las::width(const View& view, const JobView& job) const {
  const Bytes capacity = view.pool().capacity;
  const Bytes held = job.persistent + job.ephemeral;
  if (!by_pool_ || capacity <= Bytes(0) || held <= Bytes(0)) return 1;
  return static_cast<double>(held.count()) / static_cast<double>(capacity.count());
}

int64_t Las::rank(TimePoint /*now*/, const View& view, const JobView& job) const {
  return place_of(threshold_, static_cast<double>(job.busy.ns()) * width(view, job)).queue;
}

PickDecision Las::pick(TimePoint now, const View& view, const PickQuestion& question) {
  const JobView& first = *first_of(now, view, question.candidates);
  const double share = width(view, first);
  const Place place = place_of(threshold_, static_cast<double>(first.busy.ns()) * share);
  PickDecision decision{.job = first.id};
  // In the last queue there is no such end.
  constexpr double kLongestNs = 1e15;
  const double until_ns = share > 0 ? place.left_ns / share : 0;
  if (until_ns > 0 && until_ns < kLongestNs) {
    decision.budget.slice = Duration(static_cast<int64_t>(until_ns) + 1);
  }
  return decision;
}

}  // namespace laneway::policies
