#include "pipeline/prefix.h"

#include <algorithm>

#include "base/check.h"

namespace laneway::pipeline {

Bytes prefix_for(const ArrivalPlan& plan, int64_t bytes_per_s) {
  LW_CHECK(plan.needs.size() == plan.starts.size(), "each need has its time");
  Bytes most;
  for (size_t i = 0; i < plan.needs.size(); ++i) {
    // As much as has come by then, rounded down: a byte too many in the prefix harms nobody.
    const double came = plan.starts[i].seconds() * static_cast<double>(bytes_per_s);
    const double need = static_cast<double>(plan.needs[i].count());
    if (came >= need) continue;
    most = std::max(most, plan.needs[i] - Bytes(static_cast<int64_t>(came)));
  }
  return most;
}

}  // namespace laneway::pipeline
