#include "policies/least_useful.h"

#include "policies/first_to_leave.h"

namespace laneway::policies {

JobId least_useful(TimePoint now, std::span<const EvictCandidate> candidates) {
  FirstToLeave leaves(now, 0);
  JobId first;
  for (const EvictCandidate& one : candidates) {
    if (leaves.is_first(leaver(one, 0))) first = one.job->id;
  }
  return first;
}

}  // namespace laneway::policies
