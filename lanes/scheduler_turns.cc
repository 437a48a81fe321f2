// Scheduler, part: turns. A turn without a rival stays open as long as it likes; when a rival gets
// ready it is recalled, and while rivals exist turns have a budget.
#include <algorithm>
#include <set>

#include "base/check.h"
#include "lanes/scheduler.h"

namespace laneway::lanes {

void Scheduler::announce_work(Job& job) {
  job.work_announced = true;
  if (job.state() != JobState::resident || job.view.ready) return;
  job.view.ready = true;
  job.view.ready_since = now_;
  view_.add_ready(job.view);
  Lane& lane = lane_of(job.view.lane);
  touch(lane);
  if (lane.open() && !lane.bounded) recall(lane);
}

void Scheduler::become_resident(Job& job) {
  job.move_to(JobState::resident);
  Lane& lane = lane_of(job.view.lane);
  if (pool_.rounded(job.view.ephemeral) > lane.region.size) {
    // Its need grew while its image was on the way.
    lane.fit_wanted = true;
    touch(lane);
    if (!lane.open()) {
      fit_region(lane);
    } else {
      mark_held(lane);
      recall(lane);
    }
  }
  if (job.work_announced) announce_work(job);
}

void Scheduler::on(const TurnEnded& event) {
  const auto slot = std::find(open_turns_.begin(), open_turns_.end(), event.turn);
  if (!event.turn.valid() || slot == open_turns_.end()) {
    ++ignored_events_;  // of a worker that was lost
    return;
  }
  Lane& lane = lanes_[static_cast<size_t>(slot - open_turns_.begin())];
  Job& job = job_of(lane.turn.job);
  close_turn(lane);
  account(job, event);
  if (job.ending) {
    forget_job(job, job.end_state);
    return;
  }
  if (event.end == TurnEnd::failed) {
    forget_job(job, JobState::failed);
    return;
  }
  if (event.more_ready || event.end == TurnEnd::out_of_lane) job.work_announced = true;
  Bytes need = event.ephemeral > Bytes(0) ? event.ephemeral : job.view.ephemeral;
  if (event.end == TurnEnd::out_of_lane) {
    // Whoever did not fit needs more than there was, whatever it says: else it would come back for
    // ever.
    const Bytes size = lane.region.size;
    if (need <= size) need = size + std::max(Bytes(size.count() / 4), Bytes(config_.alignment));
  }
  const JobId id = job.view.id;
  set_need(job, need);
  if (find_job(id) == nullptr) return;  // it can never fit any more
  if (job.work_announced) announce_work(job);
}

void Scheduler::account(Job& job, const TurnEnded& event) {
  job.view.iterations += event.iterations;
  job.view.busy += event.busy;
  job.view.update_remaining();
}

void Scheduler::close_turn(Lane& lane) {
  const size_t slot = lane.id.value() - 1;
  Job& job = job_of(lane.turn.job);
  open_turns_[slot] = {};
  deadlines_[slot] = TimePoint::never();
  lane.move_to(LaneState::idle);
  lane.bounded = false;
  view_.set_running(lane.id, {});
  job.view.running = false;
  job.move_to(JobState::resident);
  contexts_.closed();
  touch(lane);
}

void Scheduler::recall(Lane& lane) {
  if (lane.state() != LaneState::granted) return;
  lane.move_to(LaneState::recalled);
  deadlines_[lane.id.value() - 1] = TimePoint::never();
  actions_.push_back(RecallTurn{lane.turn.id, lane.id});
}

void Scheduler::recall_unbounded() {
  for (Lane& lane : lanes_) {
    if (lane.open() && !lane.bounded) recall(lane);
  }
}

void Scheduler::try_grant(Lane& lane) {
  if (!worker_up_ || lane.state() != LaneState::idle) return;
  const policies::LaneView& view = *view_.lane(lane.id);
  if (view.ready.empty()) return;
  Job& job = job_of(ask_pick(lane, view.ready));
  if (contexts_.may_open(job.view.context_key)) {
    grant(lane, job);
    return;
  }
  job.reason = make_reason(ReasonCode::context_conflict, job);
  if (contexts_.wait(job.view.context_key)) recall_unbounded();
}

JobId Scheduler::ask_pick(const Lane& lane, std::span<const policies::JobView* const> candidates) {
  const policies::PickQuestion question{*view_.lane(lane.id), candidates};
  const JobId answer = policy_->pick(now_, view_, question);
  for (const policies::JobView* job : candidates) {
    if (job->id == answer) return answer;
  }
  ++policy_faults_;
  return fallback_->pick(now_, view_, question);
}

void Scheduler::grant(Lane& lane, Job& job) {
  const size_t slot = lane.id.value() - 1;
  view_.remove_ready(job.view);
  job.view.ready = false;
  job.view.running = true;
  job.work_announced = false;
  job.reason = {};
  job.move_to(JobState::running);
  view_.set_running(lane.id, job.view.id);
  lane.move_to(LaneState::granted);
  lane.bounded = !view_.lane(lane.id)->ready.empty() || contexts_.contended();
  const TurnBudget budget = lane.bounded ? config_.budget : TurnBudget{};
  lane.turn = {.id = turn_ids_.next(),
               .lane = lane.id,
               .job = job.view.id,
               .envelope = {.region = lane.region.id,
                            .base = lane.region.offset,
                            .ceiling = lane.region.size,
                            .budget = budget}};
  open_turns_[slot] = lane.turn.id;
  if (lane.bounded) {
    const bool sliced = budget.slice > Duration(0);
    deadlines_[slot] = now_ + (sliced ? budget.slice * 2 : config_.patience);
  }
  contexts_.opened(job.view.context_key);
  actions_.push_back(GrantTurn{lane.turn});
}

// Keys wait. When the open turns have ended, the one that waited longest gets a turn in every lane
// that has a job of it; a key whose jobs are gone meanwhile is passed over.
void Scheduler::switch_context() {
  if (!worker_up_) return;
  std::set<uint64_t> keys;
  for (const Lane& lane : lanes_) {
    if (lane.state() != LaneState::idle) continue;
    for (const policies::JobView* job : view_.lane(lane.id)->ready) keys.insert(job->context_key);
  }
  contexts_.keep_only(keys);
  while (contexts_.next_may_open()) grant_context(contexts_.take_next());
  if (contexts_.contended()) return;
  for (Lane& lane : lanes_) try_grant(lane);
}

void Scheduler::grant_context(uint64_t key) {
  std::vector<const policies::JobView*> candidates;
  for (Lane& lane : lanes_) {
    if (lane.state() != LaneState::idle) continue;
    candidates.clear();
    for (const policies::JobView* job : view_.lane(lane.id)->ready) {
      if (job->context_key == key) candidates.push_back(job);
    }
    if (!candidates.empty()) grant(lane, job_of(ask_pick(lane, candidates)));
  }
}

}  // namespace laneway::lanes
