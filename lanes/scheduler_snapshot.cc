// Scheduler, part: the snapshot for status and checkers.
#include <algorithm>

#include "lanes/scheduler.h"

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

}  // namespace

JobStatus Scheduler::status_of(const Job& job) const {
  return {.id = job.view.id,
          .session = job.view.session,
          .name = job.name,
          .job_class = job.view.job_class,
          .priority = job.view.priority,
          .weight = job.view.weight,
          .state = job.state(),
          .lane = job.view.lane,
          .ready = job.view.ready,
          .persistent = job.view.persistent,
          .ephemeral = job.view.ephemeral,
          .iterations = job.view.iterations,
          .total_iterations = job.view.total_iterations,
          .device_time = job.view.busy,
          .reason = job.reason};
}

Snapshot Scheduler::snapshot() const {
  Snapshot all;
  all.policy = policy_->name();
  all.policy_faults = policy_faults_;
  all.ignored_events = ignored_events_;
  all.worker_up = worker_up_;
  all.capacity = pool_.capacity();
  all.reserve = pool_.reserve();
  all.claimed = pool_.claimed();
  for (size_t i = 0; i < memory::kClaimClassCount; ++i) {
    all.claimed_by_class[i] = pool_.ledger().claimed(static_cast<memory::ClaimClass>(i));
  }
  all.largest_free = pool_.largest_free();
  std::vector<PoolPiece> taken;
  for (const auto& [id, job] : jobs_) {
    all.jobs.push_back(status_of(job));
    if (!job.view.lane.valid()) continue;
    taken.push_back({.kind = PieceKind::image,
                     .offset = job.image_offset,
                     .size = pool_.rounded(job.view.persistent),
                     .job = id,
                     .region = {},
                     .lane = {}});
  }
  all.ended.assign(ended_.begin(), ended_.end());
  for (const Lane& lane : lanes_) {
    if (lane.state() == LaneState::closed) continue;
    const policies::LaneView& view = *view_.lane(lane.id);
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
  all.pool = tile(std::move(taken), pool_.capacity());
  return all;
}

}  // namespace laneway::lanes
