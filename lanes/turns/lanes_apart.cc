#include "lanes/turns/lanes_apart.h"

#include "lanes/state/counted.h"

namespace laneway::lanes {

LanesApart::Answer LanesApart::ask(Lane& lane, Job& job) {
  const bool is_tried = core_.lane_limit.trying() && is_counted(job.view);
  const JobId before = is_tried ? behind(lane, job) : JobId();
  if (!before.valid()) {
    waiting_.leave(lane.id);
    return {};
  }
  waiting_.wait({lane.id, job.view.id});
  job.reason = core_.make_reason(ReasonCode::takes_turns, job);
  job.reason.behind = before;
  return {.waits = true, .in_the_way = open_counted()};
}

const policies::JobView* LanesApart::head_of(const LaneTurns::Waiting& waiting) const {
  const Job* const job = core_.jobs.find(waiting.job);
  return job != nullptr && job->view.ready ? &job->view : nullptr;
}

LaneSet LanesApart::open_counted() const {
  LaneSet open = 0;
  for (const Lane& lane : core_.lanes) {
    if (lane.open() && is_counted(running(lane))) open |= set_of(lane.id);
  }
  return open;
}

JobId LanesApart::behind(const Lane& lane, const Job& job) const {
  uint32_t before = 0;
  JobId first;
  const auto note = [&](const policies::JobView& other) {
    if (!is_counted(other) || interrupts(other, job.view)) return;
    if (before++ == 0) first = other.id;
  };
  for (const Lane& other : core_.lanes) {
    if (other.open()) note(running(other));
  }
  for (const LaneTurns::Waiting& one : waiting_.queue()) {
    if (one.lane == lane.id) break;
    if (const policies::JobView* const head = head_of(one)) note(*head);
  }
  return before < core_.lane_limit.level() ? JobId() : first;
}

}  // namespace laneway::lanes
