#include "lanes/turns/turn_control.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "lanes/state/counted.h"

namespace laneway::lanes {
namespace {

// Nobody's iteration is given up for less.
constexpr Duration kLeastPatience = milliseconds(1);

}  // namespace

TurnControl::TurnControl(CoreState& core, CheckedPolicy& policy)
    : core_(core),
      policy_(policy),
      open_turns_(core.lanes.size()),
      open_jobs_(core.lanes.size()),
      urgencies_(core.lanes.size()),
      left_(core.lanes.size()),
      contexts_(core.lanes.size()),
      apart_(core, policy),
      company_(core.lanes.size()) {}

Lane* TurnControl::lane_of_turn(TurnId turn) {
  const size_t last = slots_[turn.value() % slots_.size()];
  if (turn.valid() && last < open_turns_.size() && open_turns_[last] == turn) {
    return &core_.lanes[last];
  }
  const auto slot = std::find(open_turns_.begin(), open_turns_.end(), turn);
  if (!turn.valid() || slot == open_turns_.end()) return nullptr;
  return &core_.lanes[static_cast<size_t>(slot - open_turns_.begin())];
}

bool TurnControl::may_reopen(const Lane& lane, TurnId turn, uint64_t context_key) {
  return !lane.open() && lane_of_turn(turn) == nullptr && contexts_.may_open(context_key);
}

void TurnControl::announce_work(Job& job) {
  if (job.state() == JobState::away && !job.queued()) core_.enqueue(job);
  if (!job.work_announced) job.work_since = core_.now;
  job.work_announced = true;
  if (job.state() != job.at_rest() || job.view.ready) return;
  job.view.ready = true;
  if (!std::exchange(job.unserved, false)) job.view.ready_since = core_.now;
  core_.view.add_ready(job.view);
  Lane& lane = core_.lane_of(job.view.lane);
  core_.touch(lane);
  lane.rival_came = lane.open();
}

void TurnControl::recall_for(Lane& lane, const Job& wants) {
  if (!lane.open()) return;
  if (may_interrupt(lane, wants.view)) {
    hurry(lane, wants.view);
  } else {
    recall(lane);
  }
}

void TurnControl::hurry(Lane& lane, const policies::JobView& wants) {
  if (lane.hurried) return;
  lane.hurried = true;
  if (lane.state() == LaneState::granted) lane.move_to(LaneState::recalled);
  deadlines_.clear(lane.id.value() - 1);
  const Duration latest = std::max(kLeastPatience, wants.mean_iteration_time());
  core_.actions.push_back(RecallTurn{lane.turn.id, lane.id, latest});
}

void TurnControl::begin_turn(Lane& lane, Job& job, TurnId turn, const TurnBudget& budget) {
  job.view.running = true;
  job.view.turn_began = core_.now;
  job.move_to(JobState::running);
  core_.view.set_running(lane.id, job.view.id);
  lane.move_to(LaneState::granted);
  lane.turn = {.id = turn,
               .lane = lane.id,
               .job = job.view.id,
               .envelope = {.region = lane.region.id,
                            .base = lane.region.offset,
                            .ceiling = lane.region.size,
                            .budget = budget,
                            .lingers = lane.lingers ? core_.config.lingers : Duration()}};
  set_urgency(lane, job);
  lane.granted_at = core_.now;
  lane.rival_came = false;
  lane.hurried = false;
  open_turns_[lane.id.value() - 1] = turn;
  slots_[turn.value() % slots_.size()] = static_cast<uint8_t>(lane.id.value() - 1);
  open_jobs_[lane.id.value() - 1] = &job.view;
  if (!lane.bounded) unbounded_ |= set_of(lane.id);
  contexts_.opened(job.view.context_key, lane.id);
  const bool counts = is_counted(job.view);
  company_.opened(lane.id, counts, core_.now);
  if (counts) note_load(lane);
  core_.note_order(lane);  // who waits there may go elsewhere
}

void TurnControl::note_load(const Lane& lane) {
  LaneLimit& limit = core_.lane_limit;
  if (!limit.on()) return;
  if (limit.trying()) {
    limit.turn_began(lane.id);
  } else if ((lane.bounded && !lane.lingers) || company_.counted() > 1) {
    limit.contended(core_.now);
  }
}

void TurnControl::watch_level(uint32_t level) {
  company_.watch_level(level, core_.now);
  if (level > 0) shorten(apart_.open_counted());
}

void TurnControl::set_urgency(Lane& lane, const Job& job) {
  TurnEnvelope& envelope = lane.turn.envelope;
  const int64_t urgency = policy_.urgency(core_, job.view);
  urgencies_[lane.id.value() - 1] = urgency;
  if (equally_urgent_ && urgency == last_urgency_) return;
  last_urgency_ = urgency;
  equally_urgent_ = true;
  for (size_t slot = 0; slot < open_jobs_.size(); ++slot) {
    if (open_jobs_[slot] == nullptr || urgencies_[slot] == urgency) continue;
    equally_urgent_ = false;
    (urgency > urgencies_[slot] ? envelope.interrupts : envelope.yields_to) |=
        set_of(LaneId(slot + 1));
  }
}

void TurnControl::ask_urgencies() {
  equally_urgent_ = false;  // until a turn begins
  for (size_t slot = 0; slot < open_jobs_.size(); ++slot) {
    if (open_jobs_[slot] != nullptr) urgencies_[slot] = policy_.urgency(core_, *open_jobs_[slot]);
  }
}

void TurnControl::pause(Lane& lane) {
  Job& job = core_.job_of(lane.turn.job);
  if (job.state() != JobState::running || job.quarantined) return;  // a report said so already
  job.move_to(JobState::paused);
  company_.disturb();
  job.paused_since = core_.now;
  ++job.pauses;
  const size_t slot = lane.id.value() - 1;
  const TimePoint deadline = deadlines_.at(slot);
  left_[slot] = deadline == TimePoint::never() ? Duration() : deadline - core_.now;
  deadlines_.clear(slot);
}

void TurnControl::resume(Lane& lane, Duration paused) {
  Job& job = core_.job_of(lane.turn.job);
  job.paused += std::clamp(paused, Duration(), core_.now - TimePoint());
  if (job.state() != JobState::paused) return;
  job.move_to(JobState::running);
  company_.disturb();
  lane.granted_at = lane.granted_at + (core_.now - job.paused_since);
  const bool counts = lane.bounded && lane.state() == LaneState::granted;
  const size_t slot = lane.id.value() - 1;
  if (counts) deadlines_.set(slot, core_.now + left_[slot]);
}

void TurnControl::reopen(Lane& lane, Job& job, TurnId turn) {
  lane.bounded = lane.lingers = false;
  begin_turn(lane, job, turn, {});
}

Stretch TurnControl::close_turn(Lane& lane) {
  const size_t slot = lane.id.value() - 1;
  Job& job = core_.job_of(lane.turn.job);
  open_turns_[slot] = {};
  open_jobs_[slot] = nullptr;
  unbounded_ &= ~set_of(lane.id);
  deadlines_.clear(slot);
  lane.move_to(LaneState::idle);
  lane.bounded = lane.brief = lane.lingers = false;
  core_.view.set_running(lane.id, {});
  job.view.running = false;
  job.move_to(job.at_rest());
  contexts_.closed();
  core_.touch(lane);
  return company_.closed(lane.id, core_.now);
}

void TurnControl::recall(Lane& lane) {
  if (lane.state() != LaneState::granted) return;
  lane.move_to(LaneState::recalled);
  deadlines_.clear(lane.id.value() - 1);
  core_.actions.push_back(RecallTurn{.turn = lane.turn.id, .lane = lane.id});
}

void TurnControl::bound_open_turns() {
  if (!core_.memory_wanted()) return;
  for (LaneSet open = unbounded_; open != 0; open &= open - 1) {
    recall(core_.lanes[static_cast<size_t>(std::countr_zero(open))]);
  }
}

void TurnControl::recall_unbounded() {
  for (Lane& lane : core_.lanes) {
    if (lane.open() && (!lane.bounded || lane.lingers)) recall(lane);
  }
}

void TurnControl::follow_policy() {
  ask_urgencies();
  for (Lane& lane : core_.lanes) {
    if (lane.open() && lane.bounded) recall(lane);
  }
}

void TurnControl::settle_lane(Lane& lane) {
  if (!core_.worker_up) return;
  if (lane.state() == LaneState::idle) try_grant(lane);
  if (std::exchange(lane.rival_came, false) && lane.open() && !lane.hurried) reconsider(lane);
}

void TurnControl::reconsider(Lane& lane) {
  const policies::LaneView& view = *core_.view.lane(lane.id);
  if (view.ready.empty()) return;  // the rival has left meanwhile
  const policies::JobView& running = core_.job_of(view.running).view;
  const auto is_urgent = [&](const policies::JobView* rival) {
    return may_interrupt(lane, *rival);
  };
  if (std::none_of(view.ready.begin(), view.ready.end(), is_urgent)) {
    if (lane.state() != LaneState::granted) return;
    if (!lane.bounded || lane.lingers) return recall(lane);
  }
  rivals_ = view.ready;
  rivals_.insert(std::lower_bound(rivals_.begin(), rivals_.end(), running.arrival,
                                  [](const policies::JobView* job, uint64_t arrival) {
                                    return job->arrival < arrival;
                                  }),
                 &running);
  const JobId next = policy_.pick(core_, lane, rivals_, &running).job;
  if (next != running.id) return recall_for(lane, core_.job_of(next));
  if (!lane.bounded) recall(lane);
}

void TurnControl::try_grant(Lane& lane) {
  const policies::LaneView& view = *core_.view.lane(lane.id);
  if (view.ready.empty()) return;
  const policies::PickDecision decision = policy_.pick(core_, lane, view.ready);
  Job& job = core_.job_of(decision.job);
  if (!contexts_.may_open(job.view.context_key)) {
    wait_for_context(lane, job);
  } else if (!must_wait(lane, job)) {
    grant(lane, decision);
  }
}

bool TurnControl::must_wait(Lane& lane, Job& job) {
  const LanesApart::Answer answer = apart_.ask(lane, job);
  shorten(answer.in_the_way);
  return answer.waits;
}

void TurnControl::shorten(LaneSet lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    Lane& lane = core_.lanes[static_cast<size_t>(std::countr_zero(lanes))];
    if (!lane.brief) recall(lane);
  }
}

void TurnControl::settle_lane_turns() {
  if (!core_.worker_up) return apart_.clear();
  const std::vector<LaneTurns::Waiting>& queue = apart_.waiting().queue();
  for (size_t i = 0; i < queue.size();) {
    Lane& lane = core_.lane_of(queue[i].lane);
    const bool has_work =
        lane.state() == LaneState::idle && !core_.view.lane(lane.id)->ready.empty();
    has_work ? try_grant(lane) : apart_.leave(lane.id);
    if (i < queue.size() && queue[i].lane == lane.id) ++i;
  }
}

TurnBudget TurnControl::bound_of(const policies::PickDecision& decision) const {
  return decision.budget.is_bound() ? decision.budget : core_.config.budget;
}

TurnBudget TurnControl::brief(const TurnBudget& wanted, bool is_tried) const {
  TurnBudget most = core_.config.budget;
  // The gaps between turns of short iterations would be a part of what is measured.
  if (is_tried && most.slice > Duration()) most.iterations = 0;
  return shorter(wanted, most);
}

TimePoint TurnControl::overdue_at(const TurnBudget& budget) const {
  const Duration patience = core_.config.patience;
  if (budget.slice <= Duration()) return core_.now + patience;
  return core_.now + budget.slice + std::min(budget.slice, patience);
}

void TurnControl::grant(Lane& lane, const policies::PickDecision& decision) {
  Job& job = core_.job_of(decision.job);
  core_.view.remove_ready(job.view);
  job.view.ready = false;
  job.work_announced = false;
  job.reason = {};
  const bool is_tried = core_.lane_limit.trying() && is_counted(job.view);
  lane.brief = !apart_.waiting().empty() || is_tried;
  const bool has_rivals = lane.brief || job.unloaded || !core_.view.lane(lane.id)->ready.empty() ||
                          contexts_.contended();
  lane.bounded = has_rivals || core_.memory_wanted() || core_.work_is_kept_waiting;
  TurnBudget budget;
  if (lane.bounded)
    budget = has_rivals ? bound_of(decision) : TurnBudget{.slice = core_.config.longest_slice};
  if (lane.brief) budget = brief(decision.budget, is_tried);
  lane.lingers = lane.bounded && !has_rivals;
  begin_turn(lane, job, turn_ids_.next(), budget);
  if (lane.bounded) deadlines_.set(lane.id.value() - 1, overdue_at(budget));
  ++core_.counters.turns;
  core_.actions.push_back(GrantTurn{lane.turn});
  keep_learnt(job);
}

void TurnControl::keep_learnt(Job& job) {
  const std::optional<Learnt> learnt = policy_.learnt(job.view);
  if (!learnt || *learnt == job.learnt) return;
  job.learnt = *learnt;
  core_.actions.push_back(KeepLearnt{job.view.id, *learnt});
}

void TurnControl::forget_old_recalls() {
  std::erase_if(core_.actions, [this](const Action& action) {
    const auto* recall = std::get_if<RecallTurn>(&action);
    return recall != nullptr && lane_of_turn(recall->turn) == nullptr;
  });
}

void TurnControl::recall_overdue() {
  for (size_t i = 0; i < core_.lanes.size(); ++i) {
    if (deadlines_.at(i) > core_.now) continue;
    deadlines_.clear(i);
    Lane& lane = core_.lanes[i];
    const bool wanted = lane.fit_wanted || lane.admission_wanted || contexts_.contended() ||
                        !apart_.waiting().empty() || !core_.view.lane(lane.id)->ready.empty() ||
                        core_.memory_wanted();
    if (wanted) {
      recall(lane);
    } else {
      lane.bounded = lane.brief = lane.lingers = false;  // whoever comes next recalls it at once
      unbounded_ |= set_of(lane.id);
    }
  }
}

}  // namespace laneway::lanes
