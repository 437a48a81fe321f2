// Priority: the highest priority first, as the jobs' clients chose it, for admission, in a lane
// and among those that stay in the pool; equal ones by arrival. A job with a higher priority that
// gets ready overtakes after the iteration that is running.
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
