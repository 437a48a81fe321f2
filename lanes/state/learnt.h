// Learnt: what a core has learnt of a job that its worker does not count itself. The core tells the
// worker (KeepLearnt), which repeats it in its report, so that another core goes on with it: the
// policy's note, and how long iterations take alone and beside those of other jobs. What a core
// hears in a report comes from another process and is checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "policies/moving_mean.h"
#include "policies/note.h"

namespace laneway::lanes {

struct Learnt {
  uint64_t policy = 0;  // whose note it is (note_key, checked_policy.h); 0: there is none
  LaneId lane;          // for which it was made: in another lane it means nothing
  policies::PolicyNote note;
  policies::MovingMean alone;  // JobView::alone_time
  friend bool operator==(const Learnt&, const Learnt&) = default;
};

// The job's iterations while exactly this other job computed (policies/speeds.h).
struct LearntBeside {
  JobId other;
  policies::MovingMean time;
};
// The worker keeps the latest ones of a job.
inline constexpr size_t kMostLearntBeside = 16;

}  // namespace laneway::lanes
