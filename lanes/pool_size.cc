#include "lanes/pool_size.h"

#include <algorithm>
#include <string>

namespace laneway::lanes {
namespace {

std::string a_pool_of(Bytes capacity) { return "a pool of " + format_bytes(capacity); }

// What images take in the pool, or would.
struct Images {
  Bytes all;
  Bytes pinned;
  Bytes region;  // the largest that a job needs
};

Images images_of(const CoreState& core) {
  Images images;
  for (const auto& [id, job] : core.jobs) {
    const Bytes size = core.pool.rounded(job.view.persistent);
    const bool has_bytes = job.view.lane.valid() || core.outside.place_of(id).tier != Tier::none;
    if (!has_bytes) continue;  // it waits with what its client has
    images.all += size;
    if (job.pinned) images.pinned += size;
    images.region = std::max(images.region, core.pool.rounded(job.view.ephemeral));
  }
  return images;
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
  const Bytes outside =
      core.outside.ledger(Tier::store).capacity() + core.outside.ledger(Tier::spill).capacity();
  const Bytes stay = std::max(images.pinned, images.all - std::min(images.all, outside));
  if (stay + images.region <= usable) return {};
  return Error{ErrorCode::refused,
               a_pool_of(capacity) + " is too small for what can't leave it: images of " +
                   format_bytes(stay) + " in all" +
                   (stay == images.pinned ? ", which are pinned,"
                                          : ", for which the " + format_bytes(outside) +
                                                " for images outside of the pool have no room,") +
                   " and the " + format_bytes(images.region) +
                   " that iterations need. Give at least " +
                   format_bytes(stay + images.region + reserve) +
                   (stay == images.pinned ? ", or unpin some" : ", or end some jobs first")};
}

}  // namespace laneway::lanes
