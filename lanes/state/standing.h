// Standing: why a job that has work does not run, since when, and what it waits for; for status.
// Made when somebody asks: no event pays for it. The numbers are those of that moment, also where
// the decision that keeps the job waiting is older. Pure.
#pragma once

#include <optional>

#include "base/time.h"
#include "lanes/state/reason.h"

namespace laneway::lanes {

struct CoreState;
struct Job;

struct Standing {
  Reason reason;  // code none: nothing is in its way, or it has nothing to run
  // Since when it has had work that does not run, or has waited to be admitted; nothing when the
  // code is none, or it has nothing to run.
  std::optional<TimePoint> since;
};

Standing standing_of(const CoreState& core, const Job& job);

}  // namespace laneway::lanes
