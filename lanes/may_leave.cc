#include "lanes/may_leave.h"

#include <algorithm>

namespace laneway::lanes {

bool is_idle(const Job& job) {
  return !job.view.running && !job.work_announced && job.state() != JobState::held;
}

bool could_leave(const Job& job, bool also_pinned) {
  const bool there =
      job.view.running || job.state() == JobState::held || job.state() == job.at_rest();
  return there && !job.arriving && job.view.lane.valid() && (also_pinned || !job.pinned) &&
         !job.leaves && !job.ending;
}

TimePoint may_leave_from(const CoreState& core, const Job& job, bool idle) {
  const Duration load = job.view.placed_at - job.admitted_at;
  const Duration stays = idle ? load : std::max(load * 2, core.config.min_resident);
  return std::max(job.view.placed_at + stays, job.leave_no_sooner);
}

}  // namespace laneway::lanes
