#include "policies/pair_rule.h"

namespace laneway::policies {

Beside PairRule::beside(TimePoint now, const View& view, const JobView& running,
                        const JobView& wants, const Oracle& oracle) const {
  const Speeds& speeds = view.speeds();
  const bool may_try = speeds.may_try(now, running.id, wants.id);
  if (const auto sum = speeds.sum_of(running, wants)) {
    const bool old = now - speeds.measured_at(running.id, wants.id) > Speeds::kRetry;
    if (old && may_try) return Beside::try_together;
    const double told = oracle.told_sum(running, wants, static_cast<double>(*sum) / 1000);
    return told > 1 + margin_ ? Beside::together : Beside::apart;
  }
  if (!may_try) return Beside::together;
  const bool alone_known =
      running.alone_time.count >= Speeds::kEnough && wants.alone_time.count >= Speeds::kEnough;
  return alone_known ? Beside::try_together : Beside::try_apart;
}

}  // namespace laneway::policies
