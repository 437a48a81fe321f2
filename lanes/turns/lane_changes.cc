#include "lanes/turns/lane_changes.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "lanes/state/counted.h"

namespace laneway::lanes {
namespace {

// A turn without a bound that is younger than this is taken for one with work.
constexpr Duration kKnownFor = seconds(1);

void note(LaneSet& set, LaneId lane, bool in) {
  set = in ? set | set_of(lane) : set & ~set_of(lane);
}

}  // namespace

LaneChanges::LaneChanges(CoreState& core, CheckedPolicy& policy, TurnControl& turns)
    : core_(core),
      policy_(policy),
      turns_(turns),
      order_(core, policy, turns),
      closed_(core.all_lanes()) {}

LaneId LaneChanges::room_for(const Job& held) const {
  if (!policy_.shares()) return {};
  const Bytes must = core_.pool.rounded(held.must);
  const auto jobs_in = [this](const Lane& lane) { return core_.view.lane(lane.id)->jobs.size(); };
  const Lane* found = nullptr;
  for (const Lane& lane : core_.lanes) {
    if (lane.state() == LaneState::closed || lane.id == held.view.lane) continue;
    if (lane.region.size < must) continue;
    if (found == nullptr || jobs_in(lane) < jobs_in(*found)) found = &lane;
  }
  return found == nullptr ? LaneId() : found->id;
}

void LaneChanges::change(Job& job, Lane& to) {
  LW_CHECK(!job.view.running && job.view.lane.valid() && job.view.lane != to.id,
           "a job changes its lane while it has no turn");
  Lane& from = core_.lane_of(job.view.lane);
  const bool ready = job.view.ready;
  core_.quit_lane(job);
  core_.enter_lane(job, to);
  job.view.ready = ready;
  if (ready) core_.view.add_ready(job.view);
  core_.actions.push_back(ChangeLane{job.view.id, to.id});
  // Somebody who waits may be let into another lane; or may find room beside a homeless job now, or
  // not any more.
  const bool other_lane = core_.lane_limit.on() && !is_counted(core_, from.id);
  if (other_lane || core_.is_homeless(job)) core_.changes.note(Changed::jobs);
  // It may be held no more, or the region wants to grow.
  to.fit_wanted = to.fit_wanted || job.state() == JobState::held ||
                  core_.pool.rounded(job.view.ephemeral) > to.region.size;
  to.rival_came = to.rival_came || (ready && to.open());
}

bool LaneChanges::may_share(const Wish& wish) const {
  const bool any_lane =
      wish.where == nullptr || (!wish.where->lane.valid() && wish.where->may_share);
  return any_lane && policy_.shares();
}

Bytes LaneChanges::shortage(const Wish& wish, const Lane& into) const {
  const policies::JobView& job = wish.job.view;
  const PoolMap& pool = core_.pool;
  const Bytes free = pool.capacity() - pool.claimed();
  if (wish.where == nullptr) {
    return pool.rounded(wish.job.must) - core_.lanes[job.lane.value() - 1].region.size - free;
  }
  const Bytes more = std::max(Bytes(), pool.rounded(job.ephemeral) - into.region.size);
  return pool.rounded(job.persistent) + more - free - pool.prefix_of(job.id).size;
}

Lane* LaneChanges::largest() {
  Lane* found = nullptr;
  for (Lane& lane : core_.lanes) {
    if (lane.state() == LaneState::closed) continue;
    if (found == nullptr || lane.region.size > found->region.size) found = &lane;
  }
  return found;
}

bool LaneChanges::has_nothing_to_run(const Lane& lane) const {
  return lane.state() == LaneState::idle && core_.view.lane(lane.id)->ready.empty();
}

std::vector<Lane*> LaneChanges::enough(const Wish& wish, const Lane& into, Of which, size_t most) {
  const Bytes shortage = this->shortage(wish, into);
  if (shortage <= Bytes() || most == 0) return {};
  std::vector<Lane*> others;
  for (Lane& lane : core_.lanes) {
    const bool is_own = wish.where == nullptr && lane.id == wish.job.view.lane;
    if (lane.state() == LaneState::closed || lane.id == into.id || is_own) continue;
    if (which == Of::all_lanes || has_nothing_to_run(lane)) others.push_back(&lane);
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const Lane* a, const Lane* b) { return a->region.size < b->region.size; });
  for (Lane* lane : others) {
    if (lane->region.size >= shortage) return {lane};
  }
  Bytes freed;
  std::vector<Lane*> chosen;
  for (auto lane = others.rbegin(); lane != others.rend() && freed < shortage; ++lane) {
    freed += (*lane)->region.size;
    chosen.push_back(*lane);
  }
  return freed < shortage || chosen.size() > most ? std::vector<Lane*>() : chosen;
}

size_t LaneChanges::most_for(const Wish& wish) {
  const auto exist = static_cast<size_t>(
      std::count_if(core_.lanes.begin(), core_.lanes.end(),
                    [](const Lane& lane) { return lane.state() != LaneState::closed; }));
  size_t stay = 1;
  if (wish.where != nullptr) {
    const Duration waited = core_.now - wish.job.view.queued_at;
    const SchedulerConfig& config = core_.config;
    const bool is_early = waited < config.merge_after;
    if (waited < config.merge_all_after) {
      const Duration due = is_early ? config.merge_after : config.merge_all_after;
      core_.retry_by(CoreState::Wait::merge, wish.job.view.queued_at + due);
      stay = is_early ? exist : std::max(config.keep_lanes, 1U);
    }
  }
  return exist > stay ? exist - stay : 0;
}

void LaneChanges::merge(Lane& from, Lane& into) {
  const std::vector<const policies::JobView*> jobs = core_.view.lane(from.id)->jobs;
  for (const policies::JobView* job : jobs) change(core_.job_of(job->id), into);
}

bool LaneChanges::merge_for(const Wish& wish) {
  if (!may_share(wish) || !core_.worker_up) return false;
  Lane* const into = largest();
  if (into == nullptr) return false;
  const size_t most = most_for(wish);
  std::vector<Lane*> chosen = enough(wish, *into, Of::idle_lanes, most);
  if (chosen.empty()) chosen = enough(wish, *into, Of::all_lanes, most);
  for (Lane* lane : chosen) {
    if (!lane->open()) {
      merge(*lane, *into);
      continue;
    }
    lane->admission_wanted = true;  // tried again then
    turns_.recall_for(*lane, wish.job);
  }
  return !chosen.empty();
}

void LaneChanges::put(const policies::JobView& job, Lane& to) {
  const LaneId from = job.lane;
  if (core_.pool.rounded(job.ephemeral) > to.region.size) {
    LW_CHECK(core_.pool.resize_region(to.region, job.ephemeral) == Room::done, "it could grow");
    core_.report_region(to);
  }
  change(core_.job_of(job.id), to);
  look(core_.lane_of(from));
  look(to);
}

bool LaneChanges::open_one(LaneSet from) {
  if (closed_ == 0) return false;
  Lane& lane = core_.lanes[static_cast<size_t>(std::countr_zero(closed_))];
  LW_CHECK(lane.state() == LaneState::closed, "a lane was opened and not touched");
  const policies::JobView* job = order_.first_for(from, lane, /*goes_before_own=*/false);
  if (job == nullptr) return false;
  lane.region = Region{};
  lane.region.id = core_.region_ids.next();
  lane.region.lane = lane.id;
  if (core_.pool.open_region(lane.region, job->ephemeral) != Room::done) {
    lane.region = Region{};
    return false;
  }
  lane.move_to(LaneState::idle);
  closed_ &= ~set_of(lane.id);
  core_.view.open_lane(lane.id, lane.region.size);
  core_.actions.push_back(
      OpenRegion{lane.region.id, lane.id, lane.region.offset, lane.region.size});
  put(*job, lane);
  return true;
}

void LaneChanges::look(const Lane& lane) {
  const LaneOrder::News news = order_.look(lane);
  // Somebody may have waited for this lane between two turns, so that it grows.
  if (news.later_holder || lane.state() == LaneState::idle) later_ |= set_of(lane.id);
  if (news.other_waits) misplaced_ |= set_of(lane.id);
  note(has_waiting_, lane.id, order_.keeps_waiting(lane.id));
}

void LaneChanges::look_at_touched() {
  LaneSet looked = 0;
  for (const LaneId id : core_.touched) {
    Lane& lane = core_.lane_of(id);
    if (!std::exchange(lane.is_news, false)) continue;
    looked |= set_of(id);
    look(lane);
    note(idle_, id, lane.state() == LaneState::idle);
    note(closed_, id, lane.state() == LaneState::closed);
  }
  // A job that waits for its numeric context keeps its lane by its rank, which changes meanwhile.
  for (LaneSet idle = idle_ & ~looked; idle != 0; idle &= idle - 1) {
    const Lane& lane = core_.lanes[static_cast<size_t>(std::countr_zero(idle))];
    const policies::LaneView* view = core_.view.lane(lane.id);
    if (view != nullptr && !view->ready.empty()) look(lane);
  }
  core_.work_is_kept_waiting = has_waiting_ != 0;
}

void LaneChanges::spread() {
  look_at_touched();
  if (std::exchange(ask_now_, false)) ask_unbounded();
  LaneSet from = 0;
  bool all = false;
  for (const LaneId id : core_.touched) {
    from |= has_waiting_ & set_of(id);
    all = all || (idle_ & set_of(id)) != 0;
  }
  if (!core_.worker_up) return;
  const bool spare = core_.memory_to_spare();
  const bool more_spare = spare && !had_spare_;
  had_spare_ = spare;
  const bool contexts = core_.changes.take(Changed::contexts);
  const bool looks_at_all = core_.changes.take(Changed::spread) || contexts || more_spare;
  all = all || looks_at_all;
  // Regions may grow now that could not.
  if (contexts || (looks_at_all && spare)) later_ = misplaced_ = core_.all_lanes();
  if (all) from = has_waiting_;
  if (from != 0) fill_lanes(from);
  put_in_order();
}

void LaneChanges::fill_lanes(LaneSet from) {
  const bool may_ask = (turns_.unbounded() & ~has_waiting_) != 0;
  if (may_ask && ask_at_ == TimePoint::never()) ask_at_ = core_.now + kKnownFor;
  for (LaneSet free = idle_; free != 0; free &= free - 1) {
    Lane& lane = core_.lanes[static_cast<size_t>(std::countr_zero(free))];
    if (!core_.view.lane(lane.id)->ready.empty()) continue;
    const policies::JobView* job = order_.first_for(from, lane, /*goes_before_own=*/false);
    if (job != nullptr) put(*job, lane);
  }
  while (core_.memory_to_spare() && open_one(from)) continue;
}

void LaneChanges::find_misplaced() {
  for (LaneSet later = std::exchange(later_, 0); later != 0; later &= later - 1) {
    const Lane& lane = core_.lanes[static_cast<size_t>(std::countr_zero(later))];
    if (!order_.has_holder(lane.id)) continue;
    const LaneSet from = has_waiting_ & ~set_of(lane.id);
    const auto* job = order_.first_for(from, lane, /*goes_before_own=*/true);
    if (job != nullptr) misplaced_ |= set_of(job->lane);
  }
}

void LaneChanges::put_in_order() {
  // Each change puts an earlier job of the order first in a lane, so this ends; a policy whose
  // ranks are nonsense is stopped.
  size_t most = policy_.shares() ? core_.lanes.size() * 4 : 0;
  for (find_misplaced(); misplaced_ != 0 && most > 0; --most, find_misplaced()) {
    const LaneId lane(static_cast<uint64_t>(std::countr_zero(misplaced_)) + 1);
    misplaced_ &= ~set_of(lane);
    const auto [job, to] = order_.misplaced(lane);
    if (job != nullptr) let_in(*job, core_.lane_of(to));
  }
  later_ = misplaced_ = 0;
}

void LaneChanges::let_in(const policies::JobView& job, Lane& lane) {
  const bool has_to_grow = core_.pool.rounded(job.ephemeral) > lane.region.size;
  if (!has_to_grow || !lane.open()) return put(job, lane);
  turns_.recall_for(lane, core_.job_of(job.id));  // idle, it gets this one
}

void LaneChanges::follow_policy() {
  for (Lane& lane : core_.lanes) {
    if (lane.state() != LaneState::closed) core_.note_order(lane);
  }
  core_.changes.note(Changed::contexts);
}

void LaneChanges::fold() {
  if (!core_.changes.take(Changed::lanes)) return;
  if (!core_.lane_limit.on() || !core_.worker_up) return;
  std::vector<Lane*> counted;
  for (Lane& lane : core_.lanes) {
    if (is_counted(core_, lane.id)) counted.push_back(&lane);
  }
  const size_t limit = core_.lane_limit.lanes();
  if (counted.size() <= limit) return;
  std::stable_sort(counted.begin(), counted.end(),
                   [](const Lane* a, const Lane* b) { return a->region.size > b->region.size; });
  const std::span<Lane* const> stay(counted.data(), limit);
  for (Lane* lane : std::span(counted).subspan(limit)) fold(*lane, stay);
}

void LaneChanges::fold(Lane& lane, std::span<Lane* const> into) {
  const std::vector<const policies::JobView*> jobs = core_.view.lane(lane.id)->jobs;
  for (const policies::JobView* job : jobs) {
    if (!is_counted(*job)) continue;
    if (job->running) {
      turns_.recall(lane);
      core_.changes.note(Changed::lanes);
      continue;
    }
    Lane* found = nullptr;
    const auto jobs_in = [this](const Lane& one) { return core_.view.lane(one.id)->jobs.size(); };
    for (Lane* one : into) {
      if (one->region.size < core_.pool.rounded(job->ephemeral)) continue;
      if (found == nullptr || jobs_in(*one) < jobs_in(*found)) found = one;
    }
    if (found != nullptr) change(core_.job_of(job->id), *found);
  }
}

void LaneChanges::ask_unbounded() {
  for (LaneSet open = turns_.unbounded() & ~has_waiting_; open != 0; open &= open - 1) {
    Lane& lane = core_.lanes[static_cast<size_t>(std::countr_zero(open))];
    if (core_.now - lane.granted_at < kKnownFor) continue;
    const auto* job = order_.first_for(has_waiting_, lane, /*goes_before_own=*/false);
    if (job != nullptr) turns_.recall(lane);
  }
}

void LaneChanges::on_timer() {
  if (ask_at_ > core_.now) return;
  ask_at_ = TimePoint::never();
  ask_now_ = true;
  core_.changes.note(Changed::spread);  // to be asked again, if somebody waits still
}

}  // namespace laneway::lanes
