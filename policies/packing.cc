#include "policies/packing.h"

namespace laneway::policies {

Beside Packing::beside(TimePoint now, const View& view, const JobView& running,
                       const JobView& wants) {
  return pairs_.beside(now, view, running, wants, oracle_);
}

int64_t Packing::rank(TimePoint /*now*/, const View& /*view*/, const JobView& job) const {
  return static_cast<int64_t>(job.arrival);
}

}  // namespace laneway::policies
