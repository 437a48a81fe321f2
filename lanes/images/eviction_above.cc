// Eviction: the pool becomes smaller.
#include <algorithm>
#include <tuple>
#include <utility>

#include "lanes/images/eviction.h"
#include "lanes/state/stay_rule.h"

namespace laneway::lanes {

void Eviction::empty_above(Bytes limit) {
  if (!core_.worker_up) return;
  prefixes_.give_up_all();
  if (!core_.leaving.empty()) return;
  Leaving above;
  bool later = false;
  for (const auto& [id, job] : core_.jobs) {
    const Bytes end = job.image_offset + core_.pool.rounded(job.view.persistent);
    if (!could_leave(job) || end <= limit || core_.is_homeless(job)) continue;
    if (job.leave_no_sooner <= core_.now) {
      above.push_back(id);
    } else {
      retry_by(job.leave_no_sooner);
      later = true;
    }
  }
  for (const JobId id : above) (void)let_go({id}, {});
  if (!core_.leaving.empty() || later || !something_is_stuck_above(limit)) return;
  if (const JobId first = first_to_leave(); first.valid()) (void)let_go({first}, {});
}

bool Eviction::something_is_stuck_above(Bytes limit) const {
  for (const Lane& lane : core_.lanes) {
    const bool above =
        lane.state() != LaneState::closed && lane.region.offset + lane.region.size > limit;
    if (above && !core_.pool.could_move_below(lane.region, limit)) return true;
  }
  const JobTable& jobs = core_.jobs;
  return std::any_of(jobs.begin(), jobs.end(), [&](const auto& known) {
    const Job& job = known.second;
    const bool above = job.image_offset + core_.pool.rounded(job.view.persistent) > limit;
    return job.view.lane.valid() && (job.pinned || core_.is_homeless(job)) && above;
  });
}

JobId Eviction::first_to_leave() {
  const Job* first = nullptr;
  for (const auto& [id, job] : core_.jobs) {
    if (!could_leave(job, /*also_pinned=*/true) || core_.is_homeless(job)) continue;
    if (job.leave_no_sooner > core_.now) {
      retry_by(job.leave_no_sooner);
      continue;
    }
    const auto order = [](const Job& one) {
      return std::tuple(one.pinned, !is_idle(one), one.view.used_at);
    };
    const bool sooner = first == nullptr || order(job) < order(*first);
    if (sooner) first = &job;
  }
  return first == nullptr ? JobId() : first->view.id;
}

}  // namespace laneway::lanes
