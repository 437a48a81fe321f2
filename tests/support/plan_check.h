// The check of a plan against its tape, without the planner's own code.
#pragma once

#include "base/result.h"
#include "memory/planner.h"

namespace laneway::memory {

// Ok when every allocation is placed, aligned, below the peak, and apart from every other that is
// alive with it. The error names the two allocations.
Status check_plan(const AllocationTape& tape, const Plan& plan);

}  // namespace laneway::memory
