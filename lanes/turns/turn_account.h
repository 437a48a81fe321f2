// account_for: adds what a turn did to what the core knows of its job: iterations, device time, and
// how long an iteration of it takes. Numbers come from the worker: parts that are larger than their
// whole are cut. A function; thread-safe as its arguments are.
#pragma once

#include "base/time.h"
#include "lanes/state/event.h"
#include "lanes/state/job.h"

namespace laneway::lanes {

// The turn was open for `open_for`. A job's wait for an iteration does not end with a turn that did
// none; it stood still meanwhile.
// Returns those of its iterations whose time says something of the next ones'.
IterationSum account_for(TimePoint now, Duration open_for, const TurnEnded& ended, Job& job);

}  // namespace laneway::lanes
