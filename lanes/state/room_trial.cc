#include "lanes/state/room_trial.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "lanes/pool/pool_gaps.h"

namespace laneway::lanes {
namespace {

bool contains(const std::vector<JobId>& sorted, JobId job) {
  return std::binary_search(sorted.begin(), sorted.end(), job);
}

// What is held needs a gap beside its own region; and a prefix is in nobody's way.
bool anything_may_help(const PoolMap& pool, const Wish& wish) {
  return wish.where == nullptr || pool.prefix_of(wish.job.view.id).exists();
}

std::vector<Range> sorted_ranges(const std::vector<Region>& regions) {
  std::vector<Range> found;
  found.reserve(regions.size());
  for (const Region& region : regions) {
    if (region.size > Bytes(0)) found.push_back(region.range());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

bool may_slide_for(CoreState& core, const Wish& wish, std::span<const Range> gone) {
  if (anything_may_help(core.pool, wish)) return true;
  return core.pool.rounded(wish.job.view.persistent) <=
         most_free_after(core.pool.ranges(), core.region_order.ranges(core.lanes), gone);
}

bool frees_enough(CoreState& core, const Wish& wish, const PoolMap& pool,
                  std::span<const JobId> leaving) {
  if (wish.where == nullptr) return true;
  const Bytes wanted = pool.rounded(wish.job.view.persistent);
  Bytes free = pool.capacity() - pool.claimed() + pool.prefix_of(wish.job.view.id).size;
  LaneSet may_shrink = core.all_lanes() & ~core.regions_needed;
  for (const JobId id : leaving) {
    const Job& job = core.job_of(id);
    free += pool.rounded(job.view.persistent);
    may_shrink |= set_of(job.view.lane);
  }
  if (wanted <= free) return true;
  // Their regions may shrink.
  std::vector<JobId> gone(leaving.begin(), leaving.end());
  std::sort(gone.begin(), gone.end());
  for (; may_shrink != 0; may_shrink &= may_shrink - 1) {
    Lane& lane = core.lanes[static_cast<size_t>(std::countr_zero(may_shrink))];
    if (lane.state() == LaneState::closed || core.needs_region(lane, gone)) continue;
    Bytes need;
    for (const policies::JobView* job : core.view.lane(lane.id)->jobs) {
      if (!contains(gone, job->id)) need = std::max(need, pool.rounded(job->ephemeral));
    }
    free += lane.region.size - need;
  }
  return wanted <= free;
}

RoomTrial::RoomTrial(CoreState& core) : core_(core), pool_(core.pool), attempt_(core.pool) {
  regions_.reserve(core.lanes.size());
  for (const Lane& lane : core.lanes) regions_.push_back(lane.region);
}

bool RoomTrial::may_slide(const Wish& wish) const {
  if (anything_may_help(pool_, wish)) return true;
  return pool_.rounded(wish.job.view.persistent) <=
         most_free_after(pool_.ranges(), sorted_ranges(regions_), {});
}

void RoomTrial::give_up(const std::vector<JobId>& prefixes) {
  for (const JobId id : prefixes) pool_.drop_prefix(id);
}

void RoomTrial::leave(const std::vector<JobId>& jobs, const Keeps& keeps) {
  std::vector<JobId> gone = jobs;
  std::sort(gone.begin(), gone.end());
  for (const JobId id : gone) {
    const auto kept = keeps.find(id);
    kept == keeps.end() ? pool_.drop_image(id) : pool_.keep_prefix(id, kept->second);
  }
  for (size_t i = 0; i < regions_.size(); ++i) {
    const Lane& lane = core_.lanes[i];
    if (lane.state() == LaneState::closed) continue;
    Bytes need;
    bool used = false;
    for (const policies::JobView* job : core_.view.lane(lane.id)->jobs) {
      if (contains(gone, job->id)) continue;
      used = true;
      need = std::max(need, job->ephemeral);
      if (pool_.rounded(need) >= regions_[i].size) break;  // it stays as it is
    }
    if (!used) {
      pool_.close_region(regions_[i]);
    } else if (pool_.rounded(need) < regions_[i].size) {
      (void)pool_.resize_region(regions_[i], need);
    }
  }
}

std::optional<Bytes> RoomTrial::move(JobId job, PoolMap::MoveTo to) {
  const std::optional<Bytes> place = pool_.begin_move(job, to);
  if (place) pool_.end_move(job, /*moved=*/true);
  return place;
}

void RoomTrial::slide(const Wish& wish, bool idle_ones_only) {
  (void)slide(wish, idle_ones_only, Bytes());
}

bool RoomTrial::slide_for(const Wish& wish) {
  const bool any = anything_may_help(pool_, wish);
  return slide(wish, /*idle_ones_only=*/false,
               any ? Bytes() : pool_.rounded(wish.job.view.persistent));
}

bool RoomTrial::slide(const Wish& wish, bool idle_ones_only, Bytes least) {
  std::vector<Region*> regions;
  Region* lowest = nullptr;
  for (size_t i = 0; i < regions_.size(); ++i) {
    const Lane& lane = core_.lanes[i];
    const bool exists = regions_[i].size > Bytes(0);
    if (!exists || (idle_ones_only && lane.state() != LaneState::idle)) continue;
    if (wish.where == nullptr && lane.id == wish.job.view.lane) {
      lowest = &regions_[i];
    } else {
      regions.push_back(&regions_[i]);
    }
  }
  return pool_.slide_up(std::move(regions), lowest, least);
}

void RoomTrial::sink(bool idle_ones_only) {
  std::vector<Region*> regions;
  for (size_t i = 0; i < regions_.size(); ++i) {
    const bool exists = regions_[i].size > Bytes(0);
    const bool moves = !idle_ones_only || core_.lanes[i].state() == LaneState::idle;
    if (exists && moves) regions.push_back(&regions_[i]);
  }
  std::sort(regions.begin(), regions.end(),
            [](const Region* a, const Region* b) { return a->offset < b->offset; });
  for (Region* region : regions) (void)pool_.slide_up({}, region);
}

bool RoomTrial::fits(const Wish& wish) {
  const policies::JobView& job = wish.job.view;
  if (wish.where == nullptr) {
    return pool_.could_resize(regions_[job.lane.value() - 1], wish.job.must) == Room::done;
  }
  const PoolMap::Mark before = pool_.mark();
  if (pool_.prefix_of(job.id).exists()) {
    if (pool_.grow_prefix(job.id, job.persistent) && finds_lane(wish)) return true;
    pool_.take_back(before);
    pool_.drop_prefix(job.id);
  }
  Bytes offset;
  const bool placed = pool_.place_image(job.id, job.persistent, &offset) == Room::done;
  if (placed && finds_lane(wish)) return true;
  pool_.take_back(before);
  return false;
}

bool RoomTrial::finds_lane(const Wish& wish) {
  const policies::JobView& job = wish.job.view;
  const Bytes need = pool_.rounded(job.ephemeral);
  bool has_lane = false;
  for (size_t i = 0; i < regions_.size(); ++i) {
    const Lane& lane = core_.lanes[i];
    const bool open = regions_[i].size > Bytes(0);
    has_lane = has_lane || !open;
    const bool may_join =
        wish.where->lane.valid() ? wish.where->lane == lane.id : wish.where->may_share;
    if (!open || !may_join) continue;
    if (regions_[i].size >= need) return true;
    if (wish.at_once && lane.open()) continue;
    if (pool_.could_resize(regions_[i], need) == Room::done) return true;
  }
  Region region;
  region.id = RegionId(UINT64_MAX);
  return has_lane && pool_.open_region(region, job.ephemeral) == Room::done;
}

}  // namespace laneway::lanes
