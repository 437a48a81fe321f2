#include "lanes/turns/lane_trials.h"

#include <algorithm>
#include <utility>

#include "lanes/state/counted.h"

namespace laneway::lanes {

void LaneTrials::follow_policy() {
  core_.lane_limit.set_wanted(core_.now, policy_.shares());
  core_.changes.note(Changed::lanes);
  follow();
}

void LaneTrials::worker_lost() {
  core_.lane_limit.give_up(core_.now);
  follow();
}

LaneLimit::Load LaneTrials::load() const {
  LaneLimit::Load load;
  for (const Lane& lane : core_.lanes) {
    if (lane.state() == LaneState::closed) continue;
    const std::vector<const policies::JobView*>& ready = core_.view.lane(lane.id)->ready;
    const auto waiting = std::count_if(
        ready.begin(), ready.end(), [](const policies::JobView* job) { return is_counted(*job); });
    const bool computes = lane.open() && is_counted(core_.job_of(lane.turn.job).view);
    if (waiting > 0 || computes) load.busy |= set_of(lane.id);
    load.more = load.more || waiting > (lane.open() ? 0 : 1);
  }
  return load;
}

void LaneTrials::turn_ended(const Job& job, LaneId lane, const Stretch& stretch, Duration busy,
                            const IterationSum& measured) {
  LaneLimit& limit = core_.lane_limit;
  if (!limit.trying() || !is_counted(job.view)) return;
  const Duration mean = job.view.counted_time.mean();
  const bool says_something = measured.count > 0 && mean > Duration();
  if (says_something && stretch.was_at_level(busy)) limit.tell(lane, job.view.id, mean, measured);
  limit.turn_ended(core_.now, load().more);
  follow();
}

void LaneTrials::on_timer() {
  LaneLimit& limit = core_.lane_limit;
  if (limit.next_wakeup() > core_.now) return;
  // Jobs with other numeric contexts never compute beside each other, whatever they would gain.
  if (!core_.worker_up || turns_.contexts_wait()) {
    limit.put_off(core_.now);
  } else {
    limit.look_again(core_.now, load());
  }
  follow();
}

void LaneTrials::follow() {
  const LaneLimit& limit = core_.lane_limit;
  if (limit.level() != level_) {
    level_ = limit.level();
    turns_.watch_level(level_);
  }
  const uint32_t lanes = limit.lanes();
  if (lanes > lanes_) core_.changes.note(Changed::bounds);  // jobs go there, or are admitted
  if (lanes < lanes_) core_.changes.note(Changed::lanes);
  lanes_ = lanes;
}

}  // namespace laneway::lanes
