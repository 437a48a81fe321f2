#include "lanes/lane_changes.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "lanes/counted.h"

namespace laneway::lanes {
namespace {

// A turn without a bound that is younger than this is taken for one with work.
constexpr Duration kKnownFor = seconds(1);

void put(LaneSet& set, LaneId lane, bool in) {
  set = in ? set | set_of(lane) : set & ~set_of(lane);
}

}  // namespace

LaneChanges::LaneChanges(CoreState& core, CheckedPolicy& policy, TurnControl& turns)
    : core_(core), policy_(policy), turns_(turns), closed_(core.all_lanes()) {}

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
  if (ready) core_.view.remove_ready(job.view);
  core_.view.remove_from_lane(job.view);
  job.view.lane = to.id;
  core_.view.add_to_lane(job.view);
  if (ready) core_.view.add_ready(job.view);
  core_.actions.push_back(ChangeLane{job.view.id, to.id});
  // Somebody who waits may be let into another lane.
  if (core_.lane_limit.on() && !is_counted(core_, from.id)) core_.memory_changed();
  from.fit_wanted = true;
  core_.touch(from);
  // It may be held no more, or the region wants to grow.
  to.fit_wanted = to.fit_wanted || job.state() == JobState::held ||
                  core_.pool.rounded(job.view.ephemeral) > to.region.size;
  to.rival_came = to.rival_came || (ready && to.open());
  core_.touch(to);
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
      merge_at_ = std::min(merge_at_, wish.job.view.queued_at + due);
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

bool LaneChanges::keeps_somebody_waiting(const Lane& lane) const {
  if (lane.state() == LaneState::closed) return false;
  // One of an idle lane's is about to get its turn.
  return core_.view.lane(lane.id)->ready.size() > (lane.open() ? 0U : 1U);
}

bool LaneChanges::find_candidates(LaneSet from, Bytes most, const Lane& to) {
  candidates_.clear();
  const bool all = takes_counted(core_, to.id);
  for (; from != 0; from &= from - 1) {
    const Lane& busy = core_.lanes[static_cast<size_t>(std::countr_zero(from))];
    if (!keeps_somebody_waiting(busy)) continue;
    for (const policies::JobView* job : core_.view.lane(busy.id)->ready) {
      const bool fits = core_.pool.rounded(job->ephemeral) <= most;
      const bool may_go = fits && (all || !is_counted(*job));
      if (may_go && turns_.may_begin(*job)) candidates_.push_back(job);
    }
  }
  return !candidates_.empty();
}

Job* LaneChanges::choose(LaneSet from, Bytes most, const Lane& to) {
  if (!find_candidates(from, most, to)) return nullptr;
  std::sort(candidates_.begin(), candidates_.end(),
            [](const policies::JobView* a, const policies::JobView* b) {
              return a->arrival < b->arrival;
            });
  const bool is_new = to.state() == LaneState::closed;
  const Lane& asked = is_new ? core_.lane_of(candidates_.front()->lane) : to;
  return &core_.job_of(policy_.pick(core_, asked, candidates_).job);
}

bool LaneChanges::open_one(LaneSet from) {
  if (closed_ == 0) return false;
  Lane& lane = core_.lanes[static_cast<size_t>(std::countr_zero(closed_))];
  LW_CHECK(lane.state() == LaneState::closed, "a lane was opened and not touched");
  Job* const job = choose(from, core_.pool.largest_free(), lane);
  if (job == nullptr) return false;
  lane.region = Region{};
  lane.region.id = core_.region_ids.next();
  lane.region.lane = lane.id;
  if (core_.pool.open_region(lane.region, job->view.ephemeral) != Room::done) {
    lane.region = Region{};
    return false;
  }
  lane.move_to(LaneState::idle);
  closed_ &= ~set_of(lane.id);
  core_.view.open_lane(lane.id, lane.region.size);
  core_.actions.push_back(
      OpenRegion{lane.region.id, lane.id, lane.region.offset, lane.region.size});
  change(*job, lane);
  return true;
}

void LaneChanges::spread() {
  LaneSet from = 0;
  bool all = std::exchange(core_.spread_all, false);
  for (const LaneId id : core_.touched) {
    const Lane& lane = core_.lane_of(id);
    const bool has_nothing = has_nothing_to_run(lane);
    put(nothing_to_run_, id, has_nothing);
    put(closed_, id, lane.state() == LaneState::closed);
    put(has_waiting_, id, keeps_somebody_waiting(lane));
    all = all || has_nothing;
    from |= has_waiting_ & set_of(id);
  }
  core_.work_is_kept_waiting = has_waiting_ != 0;
  if (all) from = has_waiting_;
  if (from == 0 || !core_.worker_up) return;
  const bool may_ask = (turns_.unbounded() & ~has_waiting_) != 0;
  if (may_ask && ask_at_ == TimePoint::never()) ask_at_ = core_.now + kKnownFor;
  for (LaneSet free = nothing_to_run_; free != 0; free &= free - 1) {
    Lane& lane = core_.lanes[static_cast<size_t>(std::countr_zero(free))];
    Job* const job = choose(from, lane.region.size, lane);
    if (job == nullptr) continue;
    change(*job, lane);
    nothing_to_run_ &= ~set_of(lane.id);
  }
  const bool nobody_wants_memory = core_.view.waiting().empty() && core_.held_jobs == 0 &&
                                   core_.wanted_capacity == core_.pool.capacity();
  while (nobody_wants_memory && open_one(from)) continue;
}

void LaneChanges::fold() {
  if (!core_.fold_wanted) return;
  core_.fold_wanted = false;
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
      core_.fold_wanted = true;
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
    // The policy is not asked: nobody gets a turn by this.
    if (find_candidates(has_waiting_, lane.region.size, lane)) turns_.recall(lane);
  }
}

void LaneChanges::on_timer() {
  if (merge_at_ <= core_.now) {
    merge_at_ = TimePoint::never();
    core_.memory_changed();
  }
  if (ask_at_ <= core_.now) {
    ask_at_ = TimePoint::never();
    ask_unbounded();
    core_.spread_all = true;  // to be asked again, if somebody waits still
  }
}

}  // namespace laneway::lanes
