#include "lanes/images/pool_size.h"

#include <algorithm>
#include <optional>
#include <string>

namespace laneway::lanes {
namespace {

std::string a_pool_of(Bytes capacity) { return "a pool of " + format_bytes(capacity); }

// What images take in the pool, or would.
struct Images {
  Bytes all;
  Bytes pinned;
  Bytes region;         // the largest that a job needs
  Bytes staying;        // of those that have no place outside to which they could leave
  Bytes staying_lanes;  // … and the largest region of theirs
  Bytes leaving;        // the most that one of the others needs, with its region
};

Images images_of(const CoreState& core) {
  Images images;
  for (const auto& [id, job] : core.jobs) {
    const Bytes size = core.pool.rounded(job.view.persistent);
    const bool has_bytes = job.view.lane.valid() || core.outside.place_of(id).tier != Tier::none;
    if (!has_bytes) continue;  // it waits with what its client has
    images.all += size;
    if (job.pinned) images.pinned += size;
    const Bytes region = core.pool.rounded(job.view.ephemeral);
    images.region = std::max(images.region, region);
    if (core.is_homeless(job)) {
      images.staying += size;
      images.staying_lanes = std::max(images.staying_lanes, region);
    } else {
      images.leaving = std::max(images.leaving, size + region);
    }
  }
  return images;
}

// Those with nowhere else to go: in the order in which the core moves them.
bool all_could_move_below(const CoreState& core, Bytes end) {
  PoolMap pool = core.pool;
  for (const auto& [id, job] : core.jobs) {
    pool.drop_prefix(id);
    if (job.view.lane.valid() && core.outside.exists() && !core.is_homeless(job)) {
      pool.drop_image(id);
    }
  }
  for (const Lane& lane : core.lanes) {
    Region region = lane.region;
    const auto stays = [&core](const policies::JobView* job) {
      return !core.outside.exists() || core.is_homeless(core.job_of(job->id));
    };
    if (lane.state() != LaneState::closed) {
      const auto& jobs = core.view.lane(lane.id)->jobs;
      if (std::none_of(jobs.begin(), jobs.end(), stays)) {
        pool.close_region(region);
        continue;
      }
    }
    const bool above = lane.state() != LaneState::closed && region.offset + region.size > end;
    if (above && !pool.move_below(region, end)) return false;
  }
  for (const auto& [id, job] : core.jobs) {
    const Bytes size = pool.rounded(job.view.persistent);
    if (!job.view.lane.valid() || job.image_offset + size <= end) continue;
    if (core.outside.exists() && !core.is_homeless(job)) continue;
    const std::optional<Bytes> place = pool.begin_move(id, PoolMap::MoveTo::lowest);
    if (!place || *place + size > end) return false;
    pool.end_move(id, /*moved=*/true);
  }
  return true;
}

}  // namespace

Status may_grow_to(Bytes wanted, Bytes made) {
  if (wanted <= made) return {};
  return Error{ErrorCode::invalid_argument,
               a_pool_of(wanted) + " is more than the service was started with: give at most " +
                   format_bytes(made) + ", or start a service with a larger pool"};
}

Status may_resize(const CoreState& core, Bytes capacity) {
  const Bytes reserve = core.pool.reserve();
  const Bytes usable = Bytes(capacity.count() & ~(core.config.alignment - 1)) - reserve;
  if (usable <= Bytes()) {
    return Error{ErrorCode::invalid_argument,
                 a_pool_of(capacity) + " leaves nothing for jobs beside the reserve of " +
                     format_bytes(reserve)};
  }
  for (const auto& [id, job] : core.jobs) {
    const Bytes image = core.pool.rounded(job.view.persistent);
    const Bytes region = core.pool.rounded(job.view.ephemeral);
    if (image <= usable && region <= usable - image) continue;
    return Error{ErrorCode::refused,
                 a_pool_of(capacity) + " could not run job '" + job.view.options.name +
                     "' (number " + std::to_string(id.value()) + ") even alone: it needs " +
                     format_bytes(image) + " for its image and " + format_bytes(region) +
                     " for its iterations. Give at least " +
                     format_bytes(image + region + reserve) + ", or end that job first"};
  }
  const Images images = images_of(core);
  const Bytes outside = core.outside.capacity();
  const Bytes stay = std::max(images.pinned, images.all - std::min(images.all, outside));
  if (stay + images.region > usable) {
    const bool pinned = stay == images.pinned;
    return Error{ErrorCode::refused,
                 a_pool_of(capacity) + " is too small for what must stay in it: images of " +
                     format_bytes(stay) + " in all" +
                     (pinned ? ", which are pinned,"
                             : ", for which the " + format_bytes(outside) +
                                   " for images outside of the pool have no room,") +
                     " and the " + format_bytes(images.region) +
                     " that iterations need. Give at least " +
                     format_bytes(stay + images.region + reserve) +
                     (pinned ? ", or unpin some" : ", or end some jobs first")};
  }
  if (images.staying > Bytes() && images.staying + images.staying_lanes + images.leaving > usable) {
    return Error{
        ErrorCode::refused,
        a_pool_of(capacity) + " would leave no room to change places: images of " +
            format_bytes(images.staying) +
            " have no place outside of the pool, and beside them and their lanes of " +
            format_bytes(images.staying_lanes) + " another job needs " +
            format_bytes(images.leaving) + ". Give at least " +
            format_bytes(images.staying + images.staying_lanes + images.leaving + reserve) +
            ", or end some jobs first"};
  }
  const bool all_may_leave = core.outside.exists() && core.homeless_jobs == 0;
  if (all_may_leave || all_could_move_below(core, usable + reserve)) return {};
  return Error{ErrorCode::refused,
               "not all that lies above " + format_bytes(usable + reserve) +
                   " finds a place below it, and there is no room for images outside of the pool "
                   "(--staging, --spill). Give more, or end some jobs first"};
}

}  // namespace laneway::lanes
