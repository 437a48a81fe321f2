// least_useful: whom a policy without a rule of its own lets go: who has not been used for longest,
// for what it costs. Unused time is set against the transfers that leaving costs (one when its
// image comes back, another one first unless a copy lies outside already); bytes cancel out,
// because what is freed grows with them as the cost does. Jobs with work leave when no others are
// left: who has been in the pool for longest first, so that they take turns.
#pragma once

#include <span>

#include "base/ids.h"
#include "base/time.h"
#include "policies/decision.h"

namespace laneway::policies {

// Requires: there is a candidate.
JobId least_useful(TimePoint now, std::span<const EvictCandidate> candidates);

}  // namespace laneway::policies
