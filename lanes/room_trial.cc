#include "lanes/room_trial.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace laneway::lanes {
namespace {

bool contains(const std::vector<JobId>& sorted, JobId job) {
  return std::binary_search(sorted.begin(), sorted.end(), job);
}

}  // namespace

bool may_slide_for(const PoolMap& pool, const std::vector<Lane>& lanes, const Wish& wish,
                   std::span<const Bytes> gone) {
  const policies::JobView& job = wish.job.view;
  // What is held needs a gap beside its own region; and a prefix is in nobody's way.
  if (wish.where == nullptr || pool.prefix_of(job.id).exists()) return true;
  std::vector<Bytes> sliding;
  for (const Lane& lane : lanes) {
    if (lane.region.size > Bytes(0)) sliding.push_back(lane.region.offset);
  }
  std::sort(sliding.begin(), sliding.end());
  return pool.rounded(job.persistent) <= pool.most_free_after(sliding, gone);
}

void RoomTrial::leave(const std::vector<JobId>& jobs, const Keeps& keeps) {
  std::vector<JobId> gone = jobs;
  std::sort(gone.begin(), gone.end());
  for (const JobId id : gone) {
    const auto kept = keeps.find(id);
    kept == keeps.end() ? pool_.drop_image(id) : pool_.keep_prefix(id, kept->second);
  }
  for (Lane& lane : lanes_) {
    if (lane.state() == LaneState::closed) continue;
    Bytes need;
    bool used = false;
    for (const policies::JobView* job : core_.view.lane(lane.id)->jobs) {
      if (contains(gone, job->id)) continue;
      used = true;
      need = std::max(need, job->ephemeral);
    }
    if (!used) {
      pool_.close_region(lane.region);
    } else if (pool_.rounded(need) < lane.region.size) {
      (void)pool_.resize_region(lane.region, need);
    }
  }
}

std::optional<Bytes> RoomTrial::move(JobId job, PoolMap::MoveTo to) {
  const std::optional<Bytes> place = pool_.begin_move(job, to);
  if (place) pool_.end_move(job, /*moved=*/true);
  return place;
}

void RoomTrial::slide(const Wish& wish, bool idle_ones_only) {
  std::vector<Region*> regions;
  Region* lowest = nullptr;
  for (Lane& lane : lanes_) {
    const bool exists = lane.region.size > Bytes(0);
    if (!exists || (idle_ones_only && lane.state() != LaneState::idle)) continue;
    if (wish.where == nullptr && lane.id == wish.job.view.lane) {
      lowest = &lane.region;
    } else {
      regions.push_back(&lane.region);
    }
  }
  pool_.slide_up(std::move(regions), lowest);
}

bool RoomTrial::fits(const Wish& wish) {
  const policies::JobView& job = wish.job.view;
  if (wish.where == nullptr) {
    return pool_.could_resize(lanes_[job.lane.value() - 1].region, wish.job.must) == Room::done;
  }
  const ImagePrefix prefix = pool_.prefix_of(job.id);
  if (prefix.exists()) {
    PoolMap grown = pool_;
    if (grown.grow_prefix(job.id, job.persistent) && finds_lane(wish, grown)) return true;
    pool_.drop_prefix(job.id);
  }
  Bytes offset;
  const bool placed = pool_.place_image(job.id, job.persistent, &offset) == Room::done;
  if (placed && finds_lane(wish, pool_)) return true;
  if (placed) pool_.drop_image(job.id);
  if (prefix.exists()) LW_CHECK(pool_.claim_prefix(job.id, prefix), "its place was free");
  return false;
}

bool RoomTrial::finds_lane(const Wish& wish, PoolMap& pool) const {
  const policies::JobView& job = wish.job.view;
  const Bytes need = pool.rounded(job.ephemeral);
  bool has_lane = false;
  for (const Lane& lane : lanes_) {
    const bool open = lane.region.size > Bytes(0);
    has_lane = has_lane || !open;
    const bool may_join =
        wish.where->lane.valid() ? wish.where->lane == lane.id : wish.where->may_share;
    if (!open || !may_join) continue;
    if (lane.region.size >= need) return true;
    if (wish.at_once && lane.open()) continue;
    if (pool.could_resize(lane.region, need) == Room::done) return true;
  }
  Region region;
  region.id = RegionId(UINT64_MAX);
  return has_lane && pool.open_region(region, job.ephemeral) == Room::done;
}

}  // namespace laneway::lanes
