// Which jobs and lanes the limit of lanes (lane_limit.h) is about: all jobs but inferences, and the
// lanes that have such jobs.
#pragma once

#include "base/ids.h"
#include "base/job_options.h"
#include "lanes/state/core_state.h"
#include "policies/view.h"

namespace laneway::lanes {

inline bool is_counted(const policies::JobView& job) {
  return job.options.job_class != JobClass::inference;
}
bool is_counted(const CoreState& core, LaneId lane);
// How many lanes are.
uint32_t counted_lanes(const CoreState& core);
// Whether jobs that are counted may be in a lane that is not.
bool takes_more_counted(const CoreState& core);
// Whether jobs that are counted may be in the lane, which may be closed still.
bool takes_counted(const CoreState& core, LaneId lane);

}  // namespace laneway::lanes
