// An estimate of the time until a waiting job has room, for users, made from a snapshot of the
// core; the core decides nothing by it. Pure function.
//
// The model: a lane's jobs share its time equally (processor sharing) and end when the iterations
// that their clients announced are done, at the mean device time so far or the pace measured
// lately, whichever is slower (a client has work of its own between iterations); an image's bytes
// are free when its job ends, a region shrinks to what the lane's other jobs need. Waiting jobs are
// admitted by position, each into a lane of its own, and stay; an image, and a region, need their
// bytes in one piece, and nothing moves. So it may be too long, where images leave or regions move.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/ids.h"
#include "base/time.h"
#include "lanes/state/snapshot.h"

namespace laneway::lanes {

// So far back in the queue a guess is none; it also bounds what a status costs.
inline constexpr uint32_t kLastEstimatedPosition = 32;

// The time from the moment of the snapshot. Nothing for a job that does not wait, or too far back,
// and when the answer depends on a job with an unknown number of iterations or an unknown time per
// iteration, or on one that is held.
std::optional<Duration> estimate_wait(const Snapshot& now, JobId job);
// The same of every job for which it is known.
std::map<JobId, Duration> estimate_waits(const Snapshot& now);

}  // namespace laneway::lanes
