#include "policies/packing.h"

namespace laneway::policies {

Packing::Packing(PolicyOptions& options)
    : oracle_(options), margin_(options.number("margin", 0.05, 0, 1)) {}

Beside Packing::beside(TimePoint now, const View& view, const JobView& running,
                       const JobView& wants) {
  const Speeds& speeds = view.speeds();
  const bool may_try = speeds.may_try(now, running.id, wants.id);
  if (const auto sum = speeds.sum_of(running, wants)) {
    const bool old = now - speeds.measured_at(running.id, wants.id) > Speeds::kRetry;
    if (old && may_try) return Beside::try_together;
    const double told = oracle_.told_sum(running, wants, static_cast<double>(*sum) / 1000);
    return told > 1 + margin_ ? Beside::together : Beside::apart;
  }
  if (!may_try) return Beside::together;
  const bool alone_known =
      running.alone_time.count >= Speeds::kEnough && wants.alone_time.count >= Speeds::kEnough;
  return alone_known ? Beside::try_together : Beside::try_apart;
}

int64_t Packing::rank(TimePoint /*now*/, const View& /*view*/, const JobView& job) const {
  return static_cast<int64_t>(job.arrival);
}

}  // namespace laneway::policies
