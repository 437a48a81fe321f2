// Edf: the earliest deadline first, for admission, in a lane and among those that stay in the
// pool; jobs without one come last, by arrival. A deadline counts from the job's first offer. Says
// of a job from its offer on by how much it will miss its deadline.
// When memory is short: of jobs with work the one with the latest deadline leaves, equal ones the
// latest arrival first, for one that goes before it. Who has nothing to run leaves first
// (first_to_leave.h).
//
// Source: Liu and Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time
// Environment", Journal of the ACM 20(1), 1973: if any order meets all deadlines of a lane, this
// one does; for what it can't meet, the processor demand up to a deadline (Baruah, Rosier and
// Howell, Real-Time Systems 2, 1990).
// Knows: deadlines; to say what is missed also remaining times (oracle.h, with its options).
// Bound: that of CommonRules; by itself jobs without a deadline starve.
#pragma once

#include "policies/oracle.h"
#include "policies/policy_options.h"
#include "policies/ranked.h"

namespace laneway::policies {

class Edf final : public Ranked {
 public:
  explicit Edf(PolicyOptions& options) : oracle_(options) {}

  std::string_view name() const override { return "edf"; }
  // What is left of the job and, once it has a lane, of those in it with earlier deadlines ends so
  // much behind its deadline. Of a job whose remaining time is not known nothing is counted: what
  // is said to be missed is missed.
  std::optional<Duration> late(TimePoint now, const View& view, const JobView& job) const override;

 private:
  int64_t rank(TimePoint now, const View& view, const JobView& job) const override;

  Oracle oracle_;
};

}  // namespace laneway::policies
