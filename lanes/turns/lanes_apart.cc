#include "lanes/turns/lanes_apart.h"

#include <utility>

#include "lanes/state/counted.h"

namespace laneway::lanes {

using policies::Beside;

LanesApart::Answer LanesApart::ask(Lane& lane, Job& job) {
  Obstacle obstacle;
  if (policy_.separates()) {
    obstacle = among_open(lane, job);
    if (!obstacle.job.valid()) {
      obstacle.job = among_waiting(lane, job, obstacle.tried_with.valid());
    }
  } else if (core_.lane_limit.trying() && is_counted(job.view)) {
    obstacle = beyond_level(lane, job);
  }
  lane.tried_with = obstacle.tried_with;
  const JobId behind = obstacle.job;
  policies::Speeds& speeds = core_.view.learnt_speeds();
  if (!behind.valid()) {
    waiting_.leave(lane.id);
    if (lane.tried_with.valid()) speeds.note_try(core_.now, job.view.id, lane.tried_with);
    return {.waits = false, .in_the_way = obstacle.in_the_way};
  }
  const bool is_new = waiting_.wait({lane.id, job.view.id, lane.tried_with});
  if (is_new && obstacle.is_try) speeds.note_try(core_.now, job.view.id, behind);
  job.reason = core_.make_reason(ReasonCode::takes_turns, job);
  job.reason.behind = behind;
  return {.waits = true, .in_the_way = obstacle.in_the_way};
}

LanesApart::Obstacle LanesApart::among_open(const Lane& lane, const Job& job) {
  Obstacle found;
  std::array<const Lane*, limits::kMaxLanes> fine{};  // beside whom it may run
  size_t fine_ones = 0;
  for (const Lane& other : core_.lanes) {
    if (!other.open() || other.id == lane.id) continue;
    const policies::JobView& open = running(other);
    if (interrupts(open, job.view)) continue;
    const Beside answer = policy_.beside(core_, open, job.view);
    const bool tried_by_others = other.tried_with.valid() && other.tried_with != job.view.id;
    if (answer == Beside::together && !tried_by_others) {
      fine.at(fine_ones++) = &other;
      continue;
    }
    found.in_the_way |= set_of(other.id);
    if (answer == Beside::try_together && !tried_by_others && !found.tried_with.valid()) {
      found.tried_with = open.id;
    } else if (!found.job.valid()) {
      found.job = open.id;
      found.is_try = answer == Beside::try_apart;
    }
  }
  if (!found.tried_with.valid()) return found;
  // What is measured is the pair: the others end before.
  for (size_t i = 0; i < fine_ones; ++i) {
    found.in_the_way |= set_of(fine.at(i)->id);
    if (!found.job.valid()) found.job = fine.at(i)->turn.job;
  }
  return found;
}

const policies::JobView* LanesApart::head_of(const LaneTurns::Waiting& waiting) const {
  const Job* const job = core_.jobs.find(waiting.job);
  return job != nullptr && job->view.ready ? &job->view : nullptr;
}

JobId LanesApart::among_waiting(const Lane& lane, const Job& job, bool is_tried) {
  for (const LaneTurns::Waiting& one : waiting_.queue()) {
    if (one.lane == lane.id) break;
    const policies::JobView* const before = head_of(one);
    if (before == nullptr || interrupts(*before, job.view)) continue;
    const bool tried_by_others = one.tried_with.valid() && one.tried_with != job.view.id;
    if (is_tried || tried_by_others) return one.job;
    const Beside answer = policy_.beside(core_, *before, job.view);
    if (answer == Beside::apart || answer == Beside::try_apart) return one.job;
  }
  return {};
}

LaneSet LanesApart::open_counted() const {
  LaneSet open = 0;
  for (const Lane& lane : core_.lanes) {
    if (lane.open() && is_counted(running(lane))) open |= set_of(lane.id);
  }
  return open;
}

LanesApart::Obstacle LanesApart::beyond_level(const Lane& lane, const Job& job) const {
  uint32_t before = 0;
  Obstacle found;
  const auto note = [&](const policies::JobView& other) {
    if (!is_counted(other) || interrupts(other, job.view)) return;
    if (before++ == 0) found.job = other.id;
  };
  for (const Lane& other : core_.lanes) {
    if (other.open()) note(running(other));
  }
  for (const LaneTurns::Waiting& one : waiting_.queue()) {
    if (one.lane == lane.id) break;
    if (const policies::JobView* const head = head_of(one)) note(*head);
  }
  if (before < core_.lane_limit.level()) return {};
  found.in_the_way = open_counted();
  return found;
}

}  // namespace laneway::lanes
