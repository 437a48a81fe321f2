// Srtf: shortest remaining time first, for admission, in a lane and among those that stay in the
// pool. Since turns end at iteration boundaries, a shorter job that gets ready overtakes a longer
// one after the iteration that is running. The remaining time is what the oracle says: what is
// left of the declared total x the measured mean; of jobs without a total a guess. Unmeasured jobs
// go first: two iterations each.
//
// When memory is short: of jobs with work the one with the longest remaining time leaves, for one
// with a shorter one (equal ones by arrival; for one of which nothing is known nobody with work
// does). Who has nothing to run leaves first (first_to_leave.h).
//
// Source: the SRTF policy of Salus (Yu and Chowdhury, "Fine-Grained GPU Sharing Primitives for
// Deep Learning Applications", MLSys 2020, section 4), which preempts at iteration granularity and
// relies on iteration times being predictable.
// Knows: remaining time (oracle.h, with its options), arrival.
// Bound: that of CommonRules; by itself long jobs starve while shorter ones keep coming.
#pragma once

#include "policies/oracle.h"
#include "policies/policy_options.h"
#include "policies/ranked.h"

namespace laneway::policies {

class Srtf final : public Ranked {
 public:
  Srtf() = default;
  explicit Srtf(PolicyOptions& options) : oracle_(options) {}

  std::string_view name() const override { return "srtf"; }
  PickDecision pick(TimePoint now, const View& view, const PickQuestion& question) override;
  // Unmeasured ones first, as in pick.
  TurnRank turn_rank(TimePoint now, const View& view, const JobView& job) const override;

 private:
  int64_t rank(TimePoint now, const View& view, const JobView& job) const override;
  bool displaces(const JobView& wants) const override { return Oracle::knows(wants); }

  Oracle oracle_;
};

}  // namespace laneway::policies
