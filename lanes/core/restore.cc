#include "lanes/core/restore.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace laneway::lanes {
namespace {

// No core comes to such an id by counting; a report that has one must not make ids wrap around.
constexpr uint64_t kLargestId = UINT64_MAX / 2;
// Sums of times stay far from overflow.
constexpr Duration kLongestBusy = Duration(INT64_MAX / 2);

template <class IdType>
bool is_countable(IdType id) {
  return id.valid() && id.value() <= kLargestId;
}

bool has_copy(const ReportedJob& reported) { return reported.image.copy.tier != Tier::none; }

bool makes_sense(const ReportedJob& reported) {
  const ImageLife& image = reported.image;
  const bool is_whole = image.state == ImageState::here || image.state == ImageState::saving;
  const bool may_have_turn = is_whole || image.state == ImageState::arriving;
  return image.consistent() && image.in_pool() == reported.lane.valid() &&
         image.state != ImageState::moving && (may_have_turn || !reported.turn.valid());
}

}  // namespace

void Restore::take_over(WorkerReport report) {
  if (!core_.jobs.empty()) {
    ++core_.ignored_events;
    return;
  }
  core_.worker_up = true;
  if (report.last_turn.value() <= kLargestId) turns_.continue_after(report.last_turn);
  if (report.last_region.value() <= kLargestId) core_.region_ids.continue_after(report.last_region);
  for (const ReportedRegion& region : report.regions) restore_region(region);
  std::stable_sort(report.jobs.begin(), report.jobs.end(),
                   [](const auto& a, const auto& b) { return a.offer.job < b.offer.job; });
  for (const ReportedJob& job : report.jobs) restore_job(job);
  for (const ReportedJob& reported : report.jobs) {
    if (Job* job = core_.find_job(reported.offer.job)) {
      policy_.recall(core_, job->view, reported.learnt);
    }
  }
  exchange_.settle_restored();
  for (Lane& lane : core_.lanes) {
    if (lane.state() != LaneState::closed) settle_restored(lane);
  }
  for (const ReportedJob& job : report.jobs) {
    Job* over = job.over ? core_.find_job(job.offer.job) : nullptr;
    if (over != nullptr) exit_.end_job(*over, JobState::failed);
  }
  core_.changes.note(Changed::lanes);
  core_.changes.note(Changed::bounds);
}

void Restore::restore_region(const ReportedRegion& reported) {
  const bool known =
      std::any_of(core_.lanes.begin(), core_.lanes.end(),
                  [&reported](const Lane& lane) { return lane.region.id == reported.region; });
  if (!is_countable(reported.region) || known) {
    ++core_.ignored_events;  // to close it would close another one
    return;
  }
  core_.region_ids.continue_after(reported.region);
  const uint64_t number = reported.lane.value();
  if (number >= 1 && number <= core_.lanes.size()) {
    Lane& lane = core_.lane_of(reported.lane);
    Region region{.id = reported.region,
                  .lane = reported.lane,
                  .offset = reported.offset,
                  .size = reported.size,
                  .claim = {}};
    if (lane.state() == LaneState::closed && core_.pool.claim_region(region)) {
      lane.region = region;
      lane.move_to(LaneState::idle);
      core_.view.open_lane(lane.id, region.size);
      return;
    }
  }
  core_.actions.push_back(CloseRegion{reported.region});
}

void Restore::restore_job(const ReportedJob& reported) {
  const JobOffered& offer = reported.offer;
  if (!offer.job.valid() || core_.find_job(offer.job) != nullptr) {
    ++core_.ignored_events;
    return;
  }
  Job job = core_.new_job(offer);
  job.view.iterations = reported.iterations;
  job.view.busy = std::clamp(reported.busy, Duration(), kLongestBusy);
  job.view.counted = reported.iterations - std::min(reported.uncounted, reported.iterations);
  job.view.counted_time.add(std::min(reported.measured.count, kLargestId),
                            std::clamp(reported.measured.busy, Duration(), job.view.busy));
  job.view.update_remaining();
  job.work_announced = reported.ready;
  job.pinned = reported.pinned;
  job.prefix_wanted = reported.prefix_wanted;
  job.admitted_at = job.view.placed_at = job.view.used_at = core_.now;
  if (reported.quarantined) job.quarantine();
  if (is_countable(reported.turn)) turns_.continue_after(reported.turn);
  if (core_.jobs.size() >= core_.config.max_jobs)
    return reject(job, reported, ReasonCode::too_many_jobs);
  if (!makes_sense(reported)) return reject(job, reported, ReasonCode::contradicted);
  if (reported.lane.valid()) return restore_admitted(std::move(job), reported);
  if (reported.over) return reject(job, reported, ReasonCode::cancelled);
  if (!core_.pool.could_ever_fit(offer.persistent, offer.ephemeral)) {
    return reject(job, reported, ReasonCode::larger_than_pool);
  }
  if (!restore_copy(reported)) return reject(job, reported, ReasonCode::contradicted);
  if (has_copy(reported)) {
    job.move_to(JobState::away);
    job.view.queued_at = core_.now;
  }
  job.image = reported.image;
  ImagePrefix& prefix = job.image.prefix;
  const bool is_part = prefix.size < core_.pool.rounded(offer.persistent);
  if (prefix.exists() && !(is_part && core_.pool.claim_prefix(offer.job, prefix))) {
    core_.actions.push_back(DropPrefix{offer.job});
    prefix = {};
  }
  Job& kept = core_.jobs.add(std::move(job));
  if (kept.queued()) core_.join_queue(kept);
}

void Restore::restore_admitted(Job job, const ReportedJob& reported) {
  const JobOffered& offer = reported.offer;
  const bool lane_known = reported.lane.value() <= core_.lanes.size() &&
                          core_.lane_of(reported.lane).state() != LaneState::closed;
  const bool turn_possible = !reported.turn.valid() || (lane_known && may_reopen(reported));
  if (!lane_known || !turn_possible ||
      !core_.pool.claim_image(offer.job, offer.persistent, reported.image_offset,
                              reported.image_size)) {
    return reject(job, reported, ReasonCode::contradicted);
  }
  const ImageLife& image = reported.image;
  const ImagePrefix& prefix = image.prefix;
  const bool will_stay =
      image.state == ImageState::leaving && prefix.offset == reported.image_offset &&
      prefix.size < reported.image_size && core_.pool.rounded(prefix.size) == prefix.size;
  // What stayed of one that comes is read until the image is whole.
  const bool prefix_possible = !prefix.exists() || will_stay ||
                               (image.comes_back() && core_.pool.claim_prefix(offer.job, prefix));
  if (!prefix_possible || !restore_copy(reported)) {
    core_.pool.drop_prefix(offer.job);
    core_.pool.drop_image(offer.job);
    return reject(job, reported, ReasonCode::contradicted);
  }
  job.image_offset = reported.image_offset;
  job.view.lane = reported.lane;
  job.image = image;
  Job& kept = core_.jobs.add(std::move(job));
  core_.view.add_to_lane(kept.view);  // all lanes are looked at, in their order
  if (has_copy(reported)) kept.move_to(JobState::away);
  kept.move_to(has_copy(reported) ? JobState::restoring : JobState::staged);
  if (image.is_usable()) {
    kept.move_to(kept.at_rest());
  } else if (!reported.over) {
    core_.actions.push_back(PlaceImage{offer.job, kept.image_offset, reported.image_size, prefix});
  }
  if (image.comes_back()) core_.coming.push_back(kept.view.id);
  if (image.is_saved()) ++core_.saving_jobs;
  if (reported.turn.valid()) {
    Lane& lane = core_.lane_of(reported.lane);
    kept.view.ready_since = core_.now;
    turns_.reopen(lane, kept, reported.turn);
    if (reported.paused) turns_.pause(lane);
  } else if (image.state == ImageState::leaving) {
    core_.leaving.push_back(kept.view.id);
    kept.move_to(JobState::evicting);
  }
}

bool Restore::restore_copy(const ReportedJob& reported) {
  return !has_copy(reported) ||
         core_.outside.claim(reported.offer.job, reported.offer.persistent, reported.image.copy);
}

bool Restore::may_reopen(const ReportedJob& reported) {
  return is_countable(reported.turn) &&
         turns_.may_reopen(core_.lane_of(reported.lane), reported.turn, reported.offer.context_key);
}

void Restore::reject(const Job& job, const ReportedJob& reported, ReasonCode code) {
  if (reported.turn.valid()) core_.actions.push_back(RecallTurn{reported.turn, reported.lane});
  core_.counters.refused(code);
  core_.actions.push_back(RefuseJob{job.view.id, core_.make_reason(code, job)});
  if (reported.lane.valid() || has_copy(reported)) {
    core_.actions.push_back(DropImage{job.view.id});
  }
}

void Restore::settle_restored(Lane& lane) {
  std::vector<JobId> jobs;
  for (const policies::JobView* job : core_.view.lane(lane.id)->jobs) jobs.push_back(job->id);
  Bytes need;
  for (const JobId id : jobs) {
    Job& job = core_.job_of(id);
    if (!core_.pool.could_ever_fit(job.view.persistent, job.view.ephemeral)) {
      exit_.refuse_for_good(job);  // its need grew past the pool while nobody listened
      continue;
    }
    need = std::max(need, core_.pool.rounded(job.view.ephemeral));
    if (job.work_announced) turns_.announce_work(job);
  }
  lane.fit_wanted = lane.fit_wanted || need != lane.region.size;
  core_.touch(lane);
  if (lane.open() && need > lane.region.size) {
    regions_.mark_held(lane);
    turns_.recall(lane);
  }
}

}  // namespace laneway::lanes
