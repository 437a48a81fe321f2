// When there is likely to be room for a job that waits: a guess for people, made from a snapshot of
// the core; nothing is decided by it. Pure function.
//
// The model: a lane's jobs share its time equally (processor sharing) and end when the iterations
// that their clients announced are done, at the mean device time so far or the pace that was seen
// lately, whichever is slower (a client has work of its own between iterations); an image is free
// when its job ends, a region shrinks to what the lane's other jobs need. Jobs that wait get in by
// position, each into a lane of its own, and stay.
#pragma once

#include <optional>

#include "base/ids.h"
#include "base/time.h"
#include "lanes/snapshot.h"

namespace laneway::lanes {

// From the moment of the snapshot. Nothing for a job that does not wait, and when it depends on a
// job of which is not known how many iterations it will run, or how long one takes.
std::optional<Duration> estimate_wait(const Snapshot& now, JobId job);

}  // namespace laneway::lanes
