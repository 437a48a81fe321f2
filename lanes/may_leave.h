// may_leave: whose image may leave the pool, and from when on. Pure.
#pragma once

#include "base/time.h"
#include "lanes/core_state.h"

namespace laneway::lanes {

// Nothing of it runs or waits to.
bool is_idle(const Job& job);
// Its image is in the pool, and nothing is being done with it.
bool could_leave(const Job& job, bool also_pinned = false);
// Not before it was in the pool for as long as eviction.h says. `idle`: as if it were, or were not.
TimePoint may_leave_from(const CoreState& core, const Job& job, bool idle);

}  // namespace laneway::lanes
