// Sjf: shortest job first, without preemption: the shortest job is admitted, and the shortest
// runs. A job that named its total and was picked keeps its lane until it is done: a shorter one
// that gets ready later waits. While it has no work the others run, and when it has again it goes
// first. Jobs that named no total have no end to wait for: each of their turns is a new choice.
// Unmeasured jobs go first: two iterations each, or, with nobody else there, as begun ones.
//
// Source: W. E. Smith, "Various optimizers for single-stage production", Naval Research Logistics
// Quarterly 3, 1956 (the order by length has the least mean completion time).
// Knows: the whole job's time (oracle.h, with its options), arrival.
// Bound: that of CommonRules; by itself long jobs starve while shorter ones keep coming.
#pragma once

#include <vector>

#include "policies/oracle.h"
#include "policies/policy_options.h"
#include "policies/ranked.h"

namespace laneway::policies {

class Sjf final : public Ranked {
 public:
  explicit Sjf(PolicyOptions& options) : oracle_(options) {}

  std::string_view name() const override { return "sjf"; }
  PickDecision pick(TimePoint now, const View& view, const PickQuestion& question) override;
  void gone(JobId job) override;
  // 1: it keeps its lane.
  std::optional<PolicyNote> note(const JobView& job) const override;
  void recall(const View& view, const JobView& job, const PolicyNote& note) override;

 private:
  int64_t rank(TimePoint now, const View& view, const JobView& job) const override;

  Oracle oracle_;
  std::vector<JobId> in_service_;  // by lane slot; none: nobody keeps it
};

}  // namespace laneway::policies
