#include "lanes/images/eviction.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "lanes/state/copies_out.h"
#include "lanes/state/stay_rule.h"

namespace laneway::lanes {
namespace {

using policies::EvictCandidate;

// Before what could not be done at once is tried again, though nothing was heard of it.
constexpr Duration kTryAgain = milliseconds(10);
// So many who leave are tried before it is known that all together would do.
constexpr size_t kFew = 2;
// Before a job whose copy failed is asked to leave again.
constexpr Duration kAfterFailure = seconds(10);

constexpr auto by_arrival = [](const EvictCandidate& a, const EvictCandidate& b) {
  return a.job->arrival < b.job->arrival;
};

bool is_best_effort(const Job& job) { return job.view.options.job_class == JobClass::best_effort; }

bool is_more_urgent(const Job& one, const Job& other) {
  if (is_best_effort(one) != is_best_effort(other)) return is_best_effort(other);
  return one.view.options.priority > other.view.options.priority;
}

}  // namespace

void Eviction::leave_to_return(const Job& held) {
  if (!could_leave(held)) return;
  if (held.leave_no_sooner <= core_.now) {
    (void)let_go({held.view.id}, {});
  } else {
    retry_by(held.leave_no_sooner);
  }
}

void Eviction::unload(Job& job) {
  const bool comes = job.image.comes_back() || job.image.state == ImageState::moving;
  job.wanted_out = comes && !job.pinned;
  if (core_.worker_up && could_leave(job)) {
    const Leaving alone{job.view.id};
    job.unloaded = let_go(alone, what_stays(nullptr, alone));
  }
}

Eviction::Outcome Eviction::make_room(const Wish& wish) {
  if (!core_.worker_up || core_.moving_jobs() > 0) return Outcome::under_way;
  if (const TimePoint until = leave_already_until(wish.job.view.id); until > core_.now) {
    retry_by(until);
    return Outcome::under_way;
  }
  Candidates found = candidates(wish);
  const Choice now = choose(wish, found.now);
  if (now.suffices && now.leaving.empty()) {
    make_room_without_leaving();
    return Outcome::under_way;
  }
  if (now.suffices) {
    if (const TimePoint from = may_be_sent(now.leaving); from > core_.now) {
      retry_by(from);
    } else {
      LW_CHECK(let_go(now.leaving, what_stays(&wish, now.leaving), wish.job.view.id), "they can");
    }
    return Outcome::under_way;
  }
  if (!core_.leaving.empty()) return Outcome::under_way;  // perhaps they suffice
  if (give_up_for_moves(wish)) return Outcome::under_way;
  retry_by(now.again);
  if (found.later.empty())
    return now.again == TimePoint::never() ? Outcome::nobody : Outcome::under_way;
  found.later.insert(found.later.end(), found.now.begin(), found.now.end());
  std::sort(found.later.begin(), found.later.end(), by_arrival);
  const Choice later = choose(wish, found.later);
  const TimePoint again = later.suffices ? found.next : std::min(now.again, later.again);
  retry_by(again);
  return again == TimePoint::never() ? Outcome::nobody : Outcome::under_way;
}

void Eviction::make_room_without_leaving() {
  prefixes_.give_up_all();
  if (!core_.may_give_room()) retry_by(core_.now + kTryAgain);
}

bool Eviction::give_up_prefixes(const Wish& wish) {
  const Wish at_once{.job = wish.job, .where = wish.where, .at_once = true};
  const auto fits_now = [&](const std::vector<JobId>& given) {
    RoomTrial trial(core_);
    trial.give_up(given);
    {
      RoomTrial slid = trial.nested();
      slid.slide(at_once, /*idle_ones_only=*/true);
      if (slid.fits(at_once)) return true;
    }
    return trial.fits(at_once);
  };
  const auto fits_later = [&](const std::vector<JobId>& given) {
    return suffices(wish, {.leaving = {}, .prefixes = given});
  };
  const JobId id = wish.job.view.id;
  return prefixes_.give_up_for(id, fits_now) || prefixes_.give_up_for(id, fits_later);
}

bool Eviction::give_up_for_moves(const Wish& wish) {
  if (core_.pool.ledger().revocable(memory::Revocation::on_demand) == Bytes()) return false;
  const std::vector<JobId> prefixes = prefixes_.all();
  if (prefixes.empty()) return false;
  const PoolMap& pool = core_.pool;
  const policies::JobView& job = wish.job.view;
  Bytes more = pool.rounded(wish.job.must);
  if (wish.where != nullptr) {
    more = pool.rounded(job.persistent) + pool.rounded(job.ephemeral);
  } else {
    more -= core_.lane_of(job.lane).region.size;
  }
  for (const JobId id : prefixes) more -= pool.prefix_of(id).size;
  if (pool.claimed() + more > pool.capacity()) return false;
  prefixes_.give_up_all();
  return true;
}

Eviction::Candidates Eviction::candidates(const Wish& wish) const {
  Candidates all;
  if (!core_.outside.exists()) return all;
  PerTier<bool> stalled;
  bool any_stalls = false;
  for (const Tier tier : kTiers) {
    stalled[tier] = stalls(core_, tier);
    any_stalls = any_stalls || stalled[tier];
  }
  const auto goes_nowhere = [&](const Job& job) {
    return !job.image.clean && any_stalls && stalled[core_.outside.place_for(job.view.id).tier];
  };
  const auto look_at = [&](const Job& job) {
    if (!could_leave(job) || &job == &wish.job) return;
    if (core_.is_homeless(job) || goes_nowhere(job)) return;
    const EvictCandidate one{.job = &job.view, .idle = is_idle(job), .clean = job.image.clean};
    if (!one.idle && !wish.overdue() && is_more_urgent(job, wish.job)) return;
    const TimePoint from = leaves_for(wish, job, one.idle);
    if (from <= core_.now) {
      all.now.push_back(one);
    } else {
      all.later.push_back(one);
      all.next = std::min(all.next, from);
    }
  };
  // Whose image is in the pool has a lane; thousands may wait outside.
  for (const policies::LaneView& lane : core_.view.lane_slots()) {
    for (const policies::JobView* job : lane.jobs) look_at(core_.job_of(job->id));
  }
  std::sort(all.now.begin(), all.now.end(), by_arrival);
  return all;
}

TimePoint Eviction::leaves_for(const Wish& wish, const Job& job, bool idle) const {
  if (!job.was_overdue && is_more_urgent(wish.job, job)) return job.leave_no_sooner;
  const TimePoint from = leaves_from({.placed_at = job.view.placed_at,
                                      .used_at = job.view.used_at,
                                      .a_switch = switch_time(core_, job, wish),
                                      .idle = idle});
  return std::max(from, job.leave_no_sooner);
}

Eviction::Choice Eviction::choose(const Wish& wish, std::vector<EvictCandidate> candidates) {
  Leaving all;
  for (const EvictCandidate& one : candidates) all.push_back(one.job->id);
  const std::vector<JobId> prefixes = prefixes_.all();
  const auto suffice = [&](const Leaving& leaving) {
    return suffices(wish, {.leaving = leaving, .prefixes = prefixes});
  };
  Choice chosen;
  Leaving& leaving = chosen.leaving;
  // When others may leave is of no use to whom all together give no room.
  const auto in_vain = [&chosen] {
    chosen.again = TimePoint::never();
    return chosen;
  };
  while (!suffice(leaving)) {
    // One or two do as a rule; before more are asked of the policy, whether all would.
    if (candidates.empty() || (leaving.size() == kFew && !suffice(all))) return in_vain();
    const policies::EvictDecision next =
        policy_.evict(core_, {wish.job.view, candidates, wish.overdue()});
    chosen.again = std::min(chosen.again, next.again);
    if (!next.job.valid()) return suffice(all) ? chosen : in_vain();
    leaving.push_back(next.job);
    std::erase_if(candidates, [&](const EvictCandidate& one) { return one.job->id == next.job; });
  }
  chosen.suffices = true;
  // The first ones may not be needed with the last one. (Without anybody was tried at first.)
  for (size_t i = 0; i < leaving.size() && leaving.size() > 1;) {
    Leaving without = leaving;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    if (suffice(without)) {
      leaving = std::move(without);
    } else {
      ++i;
    }
  }
  return chosen;
}

bool Eviction::suffices(const Wish& wish, const Gone& gone, const RoomTrial::Keeps& keeps) const {
  const bool none_given = gone.prefixes.empty();
  if (none_given && !frees_enough(core_, wish, core_.pool, gone.leaving)) return false;
  RoomTrial trial(core_);
  trial.give_up(gone.prefixes);
  if (!none_given && !frees_enough(core_, wish, trial.pool(), gone.leaving)) return false;
  trial.leave(gone.leaving, keeps);
  if (trial.fits(wish)) return true;
  if (!trial.may_slide(wish)) return false;
  return trial.slide_for(wish) && trial.fits(wish);
}

RoomTrial::Keeps Eviction::what_stays(const Wish* wish, const Leaving& leaving) const {
  RoomTrial::Keeps keeps;
  const std::vector<JobId> prefixes = prefixes_.all();
  for (const JobId id : leaving) {
    // As much as was wished for, or a half, or a quarter: a part shortens the wait as well.
    Bytes stays = prefixes_.wanted(core_.job_of(id));
    for (int tries = 0; tries < 3 && stays > Bytes(); ++tries) {
      keeps[id] = stays;
      if (wish == nullptr || suffices(*wish, {leaving, prefixes}, keeps)) break;
      keeps.erase(id);
      stays = Bytes(stays.count() / 2 / core_.config.alignment * core_.config.alignment);
    }
  }
  return keeps;
}

TimePoint Eviction::leave_already_until(JobId wants) const {
  TimePoint until;
  if (core_.leaving.empty()) return until;
  const PerTier<CopiesOut> out = copies_out(core_);
  for (const JobId id : core_.leaving) {
    if (core_.job_of(id).leaves_for != wants) continue;
    until = std::max(until, out[core_.outside.place_of(id).tier].late_from);
  }
  return until;
}

TimePoint Eviction::may_be_sent(const Leaving& leaving) const {
  TimePoint from = core_.now;
  if (core_.leaving.empty()) return from;
  const PerTier<CopiesOut> out = copies_out(core_);
  for (const JobId id : leaving) {
    if (core_.job_of(id).image.clean) continue;
    const CopiesOut& there = out[core_.outside.place_for(id).tier];
    if (there.any) from = std::max(from, there.late_from);
  }
  return from;
}

bool Eviction::let_go(const Leaving& leaving, const RoomTrial::Keeps& keeps, JobId wants) {
  if (!core_.outside.exists()) return false;
  const auto is_homeless = [this](JobId id) { return core_.is_homeless(core_.job_of(id)); };
  if (std::any_of(leaving.begin(), leaving.end(), is_homeless)) return false;
  for (const JobId id : leaving) {
    Job& job = core_.job_of(id);
    if (core_.outside.place_of(id).tier == Tier::none) {
      const OutsidePlace place = core_.outside.place_for(id);
      LW_CHECK(core_.outside.claim(id, job.view.persistent, place), "the place was free");
    }
    const auto kept = keeps.find(id);
    job.image.leave_to(
        core_.outside.place_of(id),
        kept == keeps.end() ? ImagePrefix() : ImagePrefix{job.image_offset, kept->second});
    job.leaves_for = job.left_for = wants;
    core_.leaving.push_back(id);
    if (job.view.running) {
      turns_.recall(core_.lane_of(job.view.lane));
    } else {
      leave_now(job);
    }
  }
  return true;
}

void Eviction::leave_now(Job& job) {
  core_.set_unready(job);
  job.reason = {};
  job.leaving_since = core_.now;
  job.move_to(JobState::evicting);
  retry_by(copies_out(core_, job.image.copy.tier).late_from);
  core_.actions.push_back(EvictImage{
      job.view.id, job.image.copy, core_.pool.rounded(job.view.persistent), job.image.prefix.size});
}

void Eviction::ended(Job& job) {
  job.leaves_for = {};
  std::erase(core_.leaving, job.view.id);
}

void Eviction::left(Job& job) {
  ended(job);
  if (!job.image.clean) {
    core_.view.learnt_transfers().learn(way_out(job.image.copy.tier), job.view.persistent,
                                        core_.now - job.leaving_since);
  }
  core_.quit_lane(job);
  if (job.image.saves) --core_.saving_jobs;  // an answer that comes now comes too late
  if (job.image.prefix.exists()) {
    core_.pool.keep_prefix(job.view.id, job.image.prefix.size);
  } else {
    core_.pool.drop_image(job.view.id);
  }
  job.image.left();
  job.move_to(JobState::away);
  if (job.pinned) job.wanted_in = true;
  if (!job.queued()) return;
  core_.enqueue(job);
}

void Eviction::failed(Job& job) {
  ended(job);
  job.leave_no_sooner = core_.now + kAfterFailure;
  job.image.stay();
  if (job.image.state == ImageState::here) core_.outside.drop(job.view.id);
}

void Eviction::dirty(Job& job) {
  if (job.image.outdate()) core_.outside.drop(job.view.id);
}

}  // namespace laneway::lanes
