// Priority: the highest priority first, as the jobs' clients chose it, for admission, in a lane
// and among those that stay in the pool; equal ones by arrival. A job with a higher priority that
// gets ready overtakes after the iteration that is running.
// When memory is short: of jobs with work the one with the lowest priority leaves, equal ones the
// latest first, for one that goes before it, and at once for one of a higher priority. Who has
// nothing to run leaves first (first_to_leave.h).
//
// Source: preemptive static priorities, as in Liu and Layland, "Scheduling Algorithms for
// Multiprogramming in a Hard-Real-Time Environment", Journal of the ACM 20(1), 1973.
// Knows: priority, arrival.
// Bound: that of CommonRules (ageing); by itself low priorities starve.
#pragma once

#include "policies/ranked.h"

namespace laneway::policies {

class Priority final : public Ranked {
 public:
  std::string_view name() const override { return "priority"; }

 private:
  int64_t rank(TimePoint now, const View& view, const JobView& job) const override;
};

}  // namespace laneway::policies
