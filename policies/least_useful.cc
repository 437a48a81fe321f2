#include "policies/least_useful.h"

namespace laneway::policies {
namespace {

Duration unused_for_its_cost(TimePoint now, const EvictCandidate& one) {
  return (now - one.job->used_at) * (one.clean ? 2 : 1);
}

bool leaves_before(TimePoint now, const EvictCandidate& a, const EvictCandidate& b) {
  if (a.idle != b.idle) return a.idle;
  if (!a.idle) return a.job->placed_at < b.job->placed_at;
  return unused_for_its_cost(now, a) > unused_for_its_cost(now, b);
}

}  // namespace

JobId least_useful(TimePoint now, std::span<const EvictCandidate> candidates) {
  const EvictCandidate* first = &candidates.front();
  for (const EvictCandidate& one : candidates) {
    if (leaves_before(now, one, *first)) first = &one;
  }
  return first->job->id;
}

}  // namespace laneway::policies
