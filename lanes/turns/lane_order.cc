#include "lanes/turns/lane_order.h"

#include <algorithm>
#include <bit>

#include "lanes/state/counted.h"

namespace laneway::lanes {

using policies::JobView;
using policies::LaneView;

LaneOrder::LaneOrder(CoreState& core, const CheckedPolicy& policy, const TurnControl& turns)
    : core_(core), policy_(policy), turns_(turns), firsts_(core.lanes.size()) {}

bool LaneOrder::has_room_for(const JobView& job, const Lane& lane) const {
  const Bytes need = core_.pool.rounded(job.ephemeral);
  if (lane.state() == LaneState::closed) return need <= core_.pool.largest_free();
  if (need <= lane.region.size) return true;
  const Bytes free = core_.pool.capacity() - core_.pool.claimed();
  return need - lane.region.size <= free && core_.memory_to_spare() &&
         core_.pool.could_resize(lane.region, need) == Room::done;
}

bool LaneOrder::may_go(const JobView& job, const Lane& to) const {
  return job.lane != to.id && (!is_counted(job) || takes_counted(core_, to.id)) &&
         turns_.may_begin(job) && has_room_for(job, to);
}

LaneOrder::News LaneOrder::look(const Lane& lane) {
  First& first = firsts_[lane.id.value() - 1];
  const First was = std::exchange(first, {});
  const LaneView* view = core_.view.lane(lane.id);
  if (view == nullptr) return {};
  if (view->running.valid()) {
    first.running = first.holder = ranked(core_.job_of(view->running).view);
  }
  for (const JobView* job : view->ready) see(ranked(*job), first);
  News news;
  news.later_holder =
      first.holder.job != nullptr && (was.holder.job == nullptr || was.holder.before(first.holder));
  news.other_waits = first.kept().job != nullptr &&
                     (first.kept().job != was.kept().job || first.bar().before(was.bar()));
  return news;
}

void LaneOrder::see(const Ranked& job, First& first) {
  if (first.holder.job == nullptr || job.before(first.holder)) {
    if (first.holder.job != first.running.job) first.waiting = first.holder;
    first.holder = job;
  } else if (first.waiting.job == nullptr || job.before(first.waiting)) {
    first.waiting = job;
  }
}

template <class May>
LaneOrder::Ranked LaneOrder::first_that_waits(LaneId lane, const JobView* but,
                                              const May& may) const {
  Ranked first;
  for (const JobView* job : core_.view.lane(lane)->ready) {
    if (job == but) continue;
    const Ranked one = ranked(*job);
    const bool goes_first = first.job == nullptr || one.before(first);
    if (goes_first && may(one)) first = one;
  }
  return first;
}

const JobView* LaneOrder::first_for(LaneSet from, const Lane& to, bool goes_before_own) const {
  const Ranked own = goes_before_own ? firsts_[to.id.value() - 1].holder : Ranked();
  Ranked first;
  const auto may = [&](const Ranked& one) { return may_go(*one.job, to); };
  for (; from != 0; from &= from - 1) {
    const auto slot = static_cast<size_t>(std::countr_zero(from));
    const First& its = firsts_[slot];
    Ranked one = its.kept();
    if (one.job == nullptr || (first.job != nullptr && !one.before(first))) continue;
    if (own.job != nullptr && !its.bar().before(own)) continue;
    if (!may(one)) {
      if (own.job != nullptr) continue;
      const JobView* stays = its.holder_waits() ? nullptr : its.holder.job;
      one = first_that_waits(LaneId(slot + 1), stays, may);
      if (one.job == nullptr || (first.job != nullptr && !one.before(first))) continue;
    }
    first = one;
  }
  return first.job;
}

std::pair<const JobView*, LaneId> LaneOrder::misplaced(LaneId lane) const {
  const First& own = firsts_[lane.value() - 1];
  const Ranked& kept = own.kept();
  if (kept.job == nullptr) return {};
  const Ranked* last = &own.bar();
  LaneId found;
  for (size_t slot = 0; slot < firsts_.size(); ++slot) {
    const Ranked& holder = firsts_[slot].holder;
    if (holder.job == nullptr || !last->before(holder)) continue;
    if (!may_go(*kept.job, core_.lanes[slot])) continue;
    last = &holder;
    found = LaneId(slot + 1);
  }
  return {found.valid() ? kept.job : nullptr, found};
}

}  // namespace laneway::lanes
