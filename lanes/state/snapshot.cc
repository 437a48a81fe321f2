#include "lanes/state/snapshot.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lanes/state/copies_out.h"
#include "lanes/state/core_state.h"

namespace laneway::lanes {
namespace {

void add_free_piece(std::vector<PoolPiece>& pieces, Bytes from, Bytes to) {
  if (from >= to) return;
  PoolPiece piece;
  piece.offset = from;
  piece.size = to - from;
  pieces.push_back(piece);
}

// Puts the free pieces between the taken ones.
std::vector<PoolPiece> tile(std::vector<PoolPiece> taken, Bytes capacity) {
  std::sort(taken.begin(), taken.end(),
            [](const PoolPiece& a, const PoolPiece& b) { return a.offset < b.offset; });
  std::vector<PoolPiece> pieces;
  Bytes end;
  for (const PoolPiece& piece : taken) {
    add_free_piece(pieces, end, piece.offset);
    pieces.push_back(piece);
    end = piece.offset + piece.size;
  }
  add_free_piece(pieces, end, capacity);
  return pieces;
}

bool is_about_room(ReasonCode code) {
  return code == ReasonCode::pool_full || code == ReasonCode::pool_fragmented ||
         code == ReasonCode::region_too_small || code == ReasonCode::lanes_exhausted;
}

// Whose images are in the pool, the largest first.
std::vector<JobId> holders_of(const std::vector<PoolPiece>& pool) {
  std::vector<std::pair<Bytes, JobId>> images;
  for (const PoolPiece& piece : pool) {
    if (piece.kind == PieceKind::image) images.emplace_back(piece.size, piece.job);
  }
  std::sort(images.begin(), images.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<JobId> jobs;
  jobs.reserve(images.size());
  for (const auto& [size, job] : images) jobs.push_back(job);
  return jobs;
}

void name_holders(Reason& reason, JobId job, const std::vector<JobId>& holders) {
  if (!is_about_room(reason.code)) return;
  // One's own is in the pool if it is held, or as the beginning that stayed.
  const size_t own = std::find(holders.begin(), holders.end(), job) != holders.end() ? 1 : 0;
  std::array<JobId, 3> largest{};
  size_t named = 0;
  for (size_t i = 0; i < holders.size() && named < largest.size(); ++i) {
    if (holders[i] != job) largest.at(named++) = holders[i];
  }
  const auto others = static_cast<uint32_t>(holders.size() - own - named);
  reason.holders = {largest[0], largest[1], largest[2], others};
}

// What of the pool is its image's: what stayed of one that is away, and where it lies.
void add_pieces(const CoreState& core, JobId id, const Job& job, std::vector<PoolPiece>& taken) {
  const auto add = [id, &taken](Bytes offset, Bytes size) {
    taken.push_back({.kind = PieceKind::image,
                     .offset = offset,
                     .size = size,
                     .job = id,
                     .region = {},
                     .lane = {}});
  };
  if (const ImagePrefix prefix = core.pool.prefix_of(id); prefix.exists()) {
    add(prefix.offset, prefix.size);
  }
  if (job.view.lane.valid()) add(job.image_offset, core.pool.rounded(job.view.persistent));
}

}  // namespace

Snapshot take_snapshot(const CoreState& core) {
  Snapshot all;
  all.now = core.now;
  all.ignored_events = core.ignored_events;
  all.counters = core.counters;
  all.worker_up = core.worker_up;
  if (core.lane_limit.on()) all.lane_limit = core.lane_limit.lanes();
  all.lane_trial = core.lane_limit.trying();
  all.capacity = core.pool.capacity();
  all.wanted_capacity = core.wanted_capacity;
  all.reserve = core.pool.reserve();
  all.claimed = core.pool.claimed();
  for (size_t i = 0; i < memory::kClaimClassCount; ++i) {
    all.claimed_by_class[i] = core.pool.ledger().claimed(static_cast<memory::ClaimClass>(i));
  }
  all.largest_free = core.pool.largest_free();
  const auto tier = [&core](Tier which) {
    const memory::Ledger& ledger = core.outside.ledger(which);
    return Snapshot::Outside{.capacity = ledger.capacity(),
                             .claimed = ledger.claimed(),
                             .used = {},
                             .stalls = stalls(core, which)};
  };
  all.store = tier(Tier::store);
  all.spill = tier(Tier::spill);
  std::vector<PoolPiece> taken;
  all.jobs.reserve(core.jobs.size());
  for (const auto& [id, job] : core.jobs) {
    all.jobs.push_back(core.status_of(job));
    all.store.used += all.jobs.back().store_bytes;
    all.spill.used += all.jobs.back().spill_bytes;
    add_pieces(core, id, job, taken);
  }
  all.ended.assign(core.ended.begin(), core.ended.end());
  for (const Lane& lane : core.lanes) {
    if (lane.state() == LaneState::closed) continue;
    const policies::LaneView& view = *core.view.lane(lane.id);
    LaneStatus status{.id = lane.id,
                      .region = lane.region.id,
                      .state = lane.state(),
                      .jobs = {},
                      .running = view.running};
    for (const policies::JobView* job : view.jobs) status.jobs.push_back(job->id);
    all.lanes.push_back(status);
    all.regions.push_back({lane.region.id, lane.id, lane.region.offset, lane.region.size});
    taken.push_back({.kind = PieceKind::region,
                     .offset = lane.region.offset,
                     .size = lane.region.size,
                     .job = {},
                     .region = lane.region.id,
                     .lane = lane.id});
  }
  all.pool = tile(std::move(taken), core.pool.capacity());
  const std::vector<JobId> holders = holders_of(all.pool);
  for (JobStatus& job : all.jobs) name_holders(job.reason, job.id, holders);
  return all;
}

}  // namespace laneway::lanes
