// TurnControl: numeric contexts take turns (context_turns.h).
#include <algorithm>
#include <set>
#include <vector>

#include "lanes/turns/turn_control.h"

namespace laneway::lanes {

void TurnControl::set_period(uint64_t key) {
  for (const Lane& lane : core_.lanes) {
    if (lane.state() == LaneState::closed) continue;
    const std::vector<const policies::JobView*>& ready = core_.view.lane(lane.id)->ready;
    const auto wants_one = [key](const policies::JobView* job) {
      return job->context_key == key && job->options.job_class != JobClass::best_effort;
    };
    contexts_.set_due(lane.id,
                      static_cast<uint32_t>(std::count_if(ready.begin(), ready.end(), wants_one)));
  }
}

void TurnControl::wait_for_context(Lane& lane, Job& job) {
  job.reason = core_.make_reason(ReasonCode::context_conflict, job);
  if (contexts_.wait(job.view.context_key)) recall_unbounded();
  // The policy would rather have the other key here.
  contexts_.set_due(lane.id, 0);
  // Two contexts never run beside each other, so nobody is paused for the other one.
  for (Lane& other : core_.lanes) {
    if (!other.open()) continue;
    if (!may_interrupt(other, job.view)) continue;
    contexts_.end_period();
    hurry(other, job.view);
  }
  if (contexts_.may_open(contexts_.key())) grant_one_of(lane, contexts_.key());
}

void TurnControl::grant_one_of(Lane& lane, uint64_t key) {
  std::vector<const policies::JobView*> candidates;
  for (const policies::JobView* job : core_.view.lane(lane.id)->ready) {
    if (job->context_key == key) candidates.push_back(job);
  }
  if (candidates.empty()) return;
  const policies::PickDecision decision = policy_.pick(core_, lane, candidates);
  if (!must_wait(lane, core_.job_of(decision.job))) grant(lane, decision);
}

std::set<uint64_t> TurnControl::keys_that_wait() {
  std::set<uint64_t> keys;
  for (Lane& lane : core_.lanes) {
    // In its period, and waited for another lane's turn.
    const bool begins = contexts_.is_due(lane.id) && contexts_.next_may_open();
    if (lane.state() == LaneState::idle && begins) try_grant(lane);
    bool has_open_key = lane.open();
    if (lane.state() != LaneState::closed) {
      for (const policies::JobView* job : core_.view.lane(lane.id)->ready) {
        keys.insert(job->context_key);
        has_open_key = has_open_key || job->context_key == contexts_.key();
      }
    }
    if (!has_open_key) contexts_.set_due(lane.id, 0);  // they have nothing more to run, or are over
  }
  return keys;
}

// Keys wait. When the open one's period is over, the one that waited longest gets a turn in every
// lane that has a job of it; a key whose jobs are gone meanwhile is passed over.
bool TurnControl::settle_contexts() {
  if (!contexts_.contended() || !core_.worker_up) return false;
  contexts_.keep_only(keys_that_wait());
  while (contexts_.next_may_open()) grant_context(contexts_.take_next());
  if (contexts_.contended()) return false;
  for (Lane& lane : core_.lanes) {
    if (lane.state() == LaneState::idle) try_grant(lane);
  }
  core_.changes.note(Changed::contexts);
  return true;
}

void TurnControl::grant_context(uint64_t key) {
  set_period(key);
  core_.changes.note(Changed::contexts);  // more of it may begin in other lanes
  for (Lane& lane : core_.lanes) {
    if (lane.state() == LaneState::idle) grant_one_of(lane, key);
  }
}

}  // namespace laneway::lanes
