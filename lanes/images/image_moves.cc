#include "lanes/images/image_moves.h"

#include <algorithm>
#include <utility>

namespace laneway::lanes {
namespace {

// Of images, at most so many are tried for one wish.
constexpr size_t kMostTried = 16;
// Before a job whose copy failed is asked to move again.
constexpr Duration kAfterFailure = seconds(10);

// The trial is as before, or of no use any more if it answers yes.
bool suffices(RoomTrial& trial, const Wish& wish) {
  if (trial.fits(wish)) return true;
  if (!trial.may_slide(wish)) return false;
  RoomTrial slid = trial.nested();
  return slid.slide_for(wish) && slid.fits(wish);
}

}  // namespace

bool ImageMoves::make_room(const Wish& wish) {
  if (core_.moving_jobs() > 0) return true;
  if (!core_.worker_up || !core_.leaving.empty()) return false;
  std::vector<const Job*> all = candidates();
  if (all.empty() || !may_help(wish, all)) return false;
  Step step = single(wish, all);
  if (step.job == nullptr) step = compaction(wish, std::move(all));
  return step.job != nullptr && begin(step);
}

std::vector<const Job*> ImageMoves::candidates() {
  std::vector<const Job*> all;
  all.reserve(kMostTried);
  for (const PoolMap::ImageSize& image : core_.pool.image_sizes()) {
    if (all.size() >= kMostTried) break;
    const Job& job = core_.job_of(image.job);
    // Who has no home was admitted for the place where it is (exchange.h).
    if (!core_.is_homeless(job) && could_move(job)) all.push_back(&job);
  }
  return all;
}

memory::FreeList::Range ImageMoves::image_range(const Job& job) const {
  return {job.image_offset.count(), core_.pool.rounded(job.view.persistent).count()};
}

bool ImageMoves::may_help(const Wish& wish, const std::vector<const Job*>& candidates) const {
  std::vector<memory::FreeList::Range> from;
  from.reserve(candidates.size());
  for (const Job* job : candidates) from.push_back(image_range(*job));
  std::sort(from.begin(), from.end());
  return may_slide_for(core_, wish, from);
}

bool ImageMoves::could_move(const Job& job) {
  const bool there =
      job.view.running || job.state() == JobState::held || job.state() == job.at_rest();
  if (!there || job.image.state != ImageState::here || job.ending) return false;
  if (job.move_no_sooner <= core_.now) return true;
  core_.retry_by(CoreState::Wait::move, job.move_no_sooner);
  return false;
}

ImageMoves::Step ImageMoves::single(const Wish& wish,
                                    const std::vector<const Job*>& candidates) const {
  for (const Job* job : candidates) {
    const memory::FreeList::Range gone = image_range(*job);
    if (!may_slide_for(core_, wish, {&gone, 1})) continue;
    for (const PoolMap::MoveTo to : {PoolMap::MoveTo::lowest, PoolMap::MoveTo::highest}) {
      RoomTrial trial(core_);
      if (trial.move(job->view.id, to) && suffices(trial, wish)) return {job, to};
    }
  }
  return {};
}

ImageMoves::Step ImageMoves::compaction(const Wish& wish,
                                        std::vector<const Job*> candidates) const {
  std::sort(candidates.begin(), candidates.end(),
            [](const Job* a, const Job* b) { return a->image_offset < b->image_offset; });
  RoomTrial trial(core_);
  Step first;
  for (const Job* job : candidates) {
    if (!trial.move(job->view.id, PoolMap::MoveTo::lower)) continue;
    if (first.job == nullptr) first = {job, PoolMap::MoveTo::lower};
    if (suffices(trial, wish)) return first;
  }
  return {};
}

bool ImageMoves::make_room_above(Bytes limit) {
  if (core_.moving_jobs() > 0) return true;
  if (!core_.worker_up || !core_.leaving.empty()) return false;
  const JobTable& jobs = core_.jobs;
  const auto goes = [&](const auto& known) {
    const Job& job = known.second;
    if (!lies_above(job, limit)) return false;
    {
      RoomTrial trial(core_);
      if (!finds_place(trial, job, limit)) return false;
    }
    return begin({&job, PoolMap::MoveTo::lowest});
  };
  return std::any_of(jobs.begin(), jobs.end(), goes);
}

void ImageMoves::move_down() {
  if (!core_.worker_up || !core_.leaving.empty() || core_.moving_jobs() > 0) return;
  const JobTable& jobs = core_.jobs;
  // Each step goes down, so this ends.
  const auto goes = [&](const auto& known) {
    const Job& job = known.second;
    if (!could_move(job)) return false;
    {
      RoomTrial trial(core_);
      const auto to = trial.move(job.view.id, PoolMap::MoveTo::lowest);
      if (!to || *to >= job.image_offset) return false;
    }
    return begin({&job, PoolMap::MoveTo::lowest});
  };
  (void)std::any_of(jobs.begin(), jobs.end(), goes);
}

bool ImageMoves::could_make_room_above(RoomTrial& trial, Bytes limit) {
  const JobTable& jobs = core_.jobs;
  return std::any_of(jobs.begin(), jobs.end(), [&](const auto& known) {
    RoomTrial nested = trial.nested();
    return lies_above(known.second, limit) && finds_place(nested, known.second, limit);
  });
}

bool ImageMoves::lies_above(const Job& job, Bytes limit) {
  const Bytes size = core_.pool.rounded(job.view.persistent);
  return could_move(job) && job.image_offset + size > limit;
}

bool ImageMoves::finds_place(RoomTrial& trial, const Job& job, Bytes limit) const {
  const auto to = trial.move(job.view.id, PoolMap::MoveTo::lowest);
  return to && *to + core_.pool.rounded(job.view.persistent) <= limit;
}

bool ImageMoves::begin(const Step& step) {
  Job& job = core_.job_of(step.job->view.id);
  if (job.view.running) {
    turns_.ask_boundary(core_.lane_of(job.view.lane));
    return true;
  }
  const std::optional<Bytes> place = core_.pool.begin_move(job.view.id, step.to);
  if (!place) return false;
  core_.set_unready(job);
  job.reason = {};
  job.image.move_to(*place);
  job.move_to(JobState::moving);
  core_.actions.push_back(MoveImage{job.view.id, *place, core_.pool.rounded(job.view.persistent)});
  return true;
}

void ImageMoves::ended(Job& job, bool moved) {
  core_.pool.end_move(job.view.id, moved);
  if (moved) job.image_offset = job.image.moves_to;
  job.image.moved();
  // Two jobs with different wishes do not move it to and fro for ever.
  job.move_no_sooner = core_.now + (moved ? core_.config.left_alone : kAfterFailure);
}

}  // namespace laneway::lanes
