// Sjf: shortest job first, without preemption: the shortest job is admitted, and the shortest
// runs. A job that named its total and was picked is begun: it goes before all that are not until
// it is done, so a shorter one that gets ready later waits. While it has no work the others run,
// and when it has again it goes first. Jobs that named no total have no end to wait for: each of
// their turns is a new choice. Unmeasured jobs go first: two iterations each, or, with nobody else
// who waits for a lane, as begun ones. One that is picked while a shorter one waits for memory is
// not begun.
// When memory is short: a begun job with work stays; of the others the longest leaves, and only for
// one that goes before it. Who has nothing to run leaves first (first_to_leave.h).
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
  // Unmeasured ones first, as in pick.
  TurnRank turn_rank(TimePoint now, const View& view, const JobView& job) const override;
  void gone(JobId job) override;
  // 1: it is begun.
  std::optional<PolicyNote> note(const JobView& job) const override;
  void recall(const View& view, const JobView& job, const PolicyNote& note) override;

 private:
  int64_t rank(TimePoint now, const View& view, const JobView& job) const override;
  bool displaces(const JobView& wants) const override { return Oracle::knows(wants); }
  bool is_begun(const JobView& job) const;
  void begin(JobId job);
  // Unless somebody who waits for memory goes before it.
  void begin_if_first(TimePoint now, const View& view, const JobView& job);

  Oracle oracle_;
  std::vector<JobId> begun_;  // ascending
};

}  // namespace laneway::policies
