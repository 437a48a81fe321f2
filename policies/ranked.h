// Ranked: a policy that is an order of jobs: a lower rank goes first, ties go by arrival (among
// jobs that wait, by turn_of in first_to_leave.h). The lowest rank is admitted, head of line: while
// it finds no room nobody behind it is admitted. The lowest rank among the candidates runs, until
// somebody with a lower one gets ready. Who leaves the pool first_to_leave.h says: with work the
// last one, for one that goes before it. A subclass says rank() and overrides what is different.
#pragma once

#include <cstdint>
#include <span>

#include "policies/policy.h"

namespace laneway::policies {

class Ranked : public Policy {
 public:
  AdmitDecision admit(TimePoint now, const View& view) override;
  PickDecision pick(TimePoint now, const View& view, const PickQuestion& question) override;
  EvictDecision evict(TimePoint now, const View& view, const EvictQuestion& question) override;
  int64_t admission_rank(TimePoint now, const View& view, const JobView& job) const override {
    return rank(now, view, job);
  }
  TurnRank turn_rank(TimePoint now, const View& view, const JobView& job) const override {
    return {.value = rank(now, view, job)};
  }

 protected:
  virtual int64_t rank(TimePoint now, const View& view, const JobView& job) const = 0;
  // Whether enough is known of the job for one with work to leave for it.
  virtual bool displaces(const JobView& /*wants*/) const { return true; }

  // The first by rank; ties go to the first of them in `jobs`. Null: there is none.
  const JobView* first_of(TimePoint now, const View& view,
                          std::span<const JobView* const> jobs) const;
};

}  // namespace laneway::policies
