// An estimate of the time until a waiting job has room, for users, made from a snapshot of the
// core; the core decides nothing by it. Pure function.
//
// The model: a lane's jobs share its time equally (processor sharing) and end when the iterations
// that their clients announced are done, at the mean device time so far or the pace measured
// lately, whichever is slower (a client has work of its own between iterations); an image is free
// when its job ends, a region shrinks to what the lane's other jobs need. Waiting jobs are admitted
// by position, each into a lane of its own, and stay.
#pragma once

#include <optional>

#include "base/ids.h"
#include "base/time.h"
#include "lanes/snapshot.h"

namespace laneway::lanes {

// The time from the moment of the snapshot. Nothing for a job that does not wait, and when the
// answer depends on a job with an unknown number of iterations or an unknown time per iteration.
std::optional<Duration> estimate_wait(const Snapshot& now, JobId job);

}  // namespace laneway::lanes
