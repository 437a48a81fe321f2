// Packing: jobs run beside each other, in different lanes, where that pays (pair_rule.h); others
// take turns, lane by lane. Jobs are admitted, and picked in their lane, by arrival; the latest
// leaves the pool first. Other policies do the same with their own order as NAME:beside=measured.
// When memory is short: of jobs with work the latest leaves, for an earlier one. Who has nothing to
// run leaves first (first_to_leave.h).
//
// Source: packing of jobs by measured utility, kept only where it pays, as in Gandiva (Xiao et al.,
// "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018), with normalised
// throughput of pairs as in Gavel (Narayanan et al., "Heterogeneity-Aware Cluster Scheduling
// Policies for Deep Learning Workloads", OSDI 2020).
// Knows: arrival, and the measured speeds (speeds.h); with oracle_error=E it is told sums of speeds
// that are wrong by a factor between 1 / (1 + E) and 1 + E.
// Options: margin, in parts of 1 (default 0.05); oracle_error, seed.
// Bound: that of CommonRules, in which a turn of the job's lane may wait for one turn, of the
// core's own budget, of each other lane: lanes that wait are served in order.
#pragma once

#include "policies/oracle.h"
#include "policies/pair_rule.h"
#include "policies/policy_options.h"
#include "policies/ranked.h"

namespace laneway::policies {

class Packing final : public Ranked {
 public:
  Packing() = default;
  explicit Packing(PolicyOptions& options) : pairs_(options), oracle_(options) {}

  std::string_view name() const override { return "packing"; }
  bool separates() const override { return true; }
  Beside beside(TimePoint now, const View& view, const JobView& running,
                const JobView& wants) override;

 private:
  int64_t rank(TimePoint now, const View& view, const JobView& job) const override;

  PairRule pairs_;
  Oracle oracle_;
};

}  // namespace laneway::policies
