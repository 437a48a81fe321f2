// least_useful: whom a policy without a rank lets go: as first_to_leave.h says, with all ranks
// equal.
#pragma once

#include <span>

#include "base/ids.h"
#include "base/time.h"
#include "policies/decision.h"

namespace laneway::policies {

// Requires: there is a candidate.
JobId least_useful(TimePoint now, std::span<const EvictCandidate> candidates);

}  // namespace laneway::policies
