// PairRule: whether two jobs of different lanes compute at the same time, by their measured sum of
// speeds (speeds.h): above 1 by the margin they run together, else they take turns. A pair is tried
// once: each job by itself until its time alone is known, then both together; and again after a
// while, for a bounded number of turns. A pair that cannot be measured (its jobs hardly ever
// compute at the same time) runs together. Pure.
#pragma once

#include "policies/decision.h"
#include "policies/oracle.h"
#include "policies/policy_options.h"
#include "policies/view.h"

namespace laneway::policies {

class PairRule {
 public:
  PairRule() = default;
  // Takes the option margin, in parts of 1.
  explicit PairRule(PolicyOptions& options) : margin_(options.number("margin", kMargin, 0, 1)) {}

  // As Policy::beside. `oracle` tells the measured sum.
  Beside beside(TimePoint now, const View& view, const JobView& running, const JobView& wants,
                const Oracle& oracle) const;

 private:
  static constexpr double kMargin = 0.05;
  double margin_ = kMargin;
};

}  // namespace laneway::policies
