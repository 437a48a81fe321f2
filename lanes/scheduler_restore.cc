// Scheduler, part: a core made anew from a worker's report. Regions first, then jobs in the order
// of their ids, each completely or not at all: what contradicts something that was taken in before
// it (or the pool) is refused or closed by actions, and nothing of it is kept. Turns that are open
// stay open, as turns without bound: whether they have one is not known, and a recall too many does
// no harm.
#include <algorithm>

#include "lanes/scheduler.h"

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

}  // namespace

void Scheduler::on(const WorkerReported& event) {
  if (!jobs_.empty()) {
    ++ignored_events_;
    return;
  }
  worker_up_ = true;
  WorkerReport report = event.report;
  if (report.last_turn.value() <= kLargestId) turn_ids_.continue_after(report.last_turn);
  if (report.last_region.value() <= kLargestId) region_ids_.continue_after(report.last_region);
  for (const ReportedRegion& region : report.regions) restore_region(region);
  std::stable_sort(report.jobs.begin(), report.jobs.end(),
                   [](const auto& a, const auto& b) { return a.offer.job < b.offer.job; });
  for (const ReportedJob& job : report.jobs) restore_job(job);
  for (Lane& lane : lanes_) {
    if (lane.state() != LaneState::closed) settle_restored(lane);
  }
  for (const ReportedJob& job : report.jobs) {
    Job* over = job.over ? find_job(job.offer.job) : nullptr;
    if (over != nullptr) end_job(*over, JobState::failed);
  }
  queue_changed_ = true;
  memory_changed();
}

void Scheduler::restore_region(const ReportedRegion& reported) {
  const bool known = std::any_of(lanes_.begin(), lanes_.end(), [&reported](const Lane& lane) {
    return lane.region.id == reported.region;
  });
  if (!is_countable(reported.region) || known) {
    ++ignored_events_;  // to close it would close another one
    return;
  }
  region_ids_.continue_after(reported.region);
  const uint64_t number = reported.lane.value();
  if (number >= 1 && number <= lanes_.size()) {
    Lane& lane = lane_of(reported.lane);
    Region region{.id = reported.region,
                  .lane = reported.lane,
                  .offset = reported.offset,
                  .size = reported.size,
                  .claim = {}};
    if (lane.state() == LaneState::closed && pool_.claim_region(region)) {
      lane.region = region;
      lane.move_to(LaneState::idle);
      view_.open_lane(lane.id, region.size);
      return;
    }
  }
  actions_.push_back(CloseRegion{reported.region});
}

void Scheduler::restore_job(const ReportedJob& reported) {
  const JobOffered& offer = reported.offer;
  if (!offer.job.valid() || find_job(offer.job) != nullptr) {
    ++ignored_events_;
    return;
  }
  Job job = new_job(offer);
  job.view.iterations = reported.iterations;
  job.view.busy = std::clamp(reported.busy, Duration(), kLongestBusy);
  job.view.update_remaining();
  job.work_announced = reported.ready;
  if (is_countable(reported.turn)) turn_ids_.continue_after(reported.turn);
  if (jobs_.size() >= config_.max_jobs) return reject(job, reported, ReasonCode::too_many_jobs);
  if (reported.lane.valid()) return restore_admitted(std::move(job), reported);
  if (reported.turn.valid()) return reject(job, reported, ReasonCode::contradicted);
  if (reported.over) return reject(job, reported, ReasonCode::cancelled);
  if (!pool_.could_ever_fit(offer.persistent, offer.ephemeral)) {
    return reject(job, reported, ReasonCode::larger_than_pool);
  }
  const Job& kept = jobs_.emplace(offer.job, std::move(job)).first->second;
  view_.add_waiting(kept.view);
}

void Scheduler::restore_admitted(Job job, const ReportedJob& reported) {
  const JobOffered& offer = reported.offer;
  const bool lane_known =
      reported.lane.value() <= lanes_.size() && lane_of(reported.lane).state() != LaneState::closed;
  const bool turn_possible =
      !reported.turn.valid() || (lane_known && may_reopen(lane_of(reported.lane), reported));
  if (!lane_known || !turn_possible ||
      !pool_.claim_image(offer.job, offer.persistent, reported.image_offset, reported.image_size)) {
    return reject(job, reported, ReasonCode::contradicted);
  }
  job.image_offset = reported.image_offset;
  job.view.lane = reported.lane;
  Job& kept = jobs_.emplace(offer.job, std::move(job)).first->second;
  view_.add_to_lane(kept.view);
  kept.move_to(JobState::staged);
  if (reported.placed) {
    kept.move_to(JobState::resident);
  } else if (!reported.over) {
    actions_.push_back(PlaceImage{offer.job, kept.image_offset, reported.image_size});
  }
  if (reported.turn.valid()) reopen_turn(lane_of(reported.lane), kept, reported.turn);
}

bool Scheduler::may_reopen(const Lane& lane, const ReportedJob& reported) const {
  if (!is_countable(reported.turn) || !reported.placed || lane.open()) return false;
  const bool elsewhere =
      std::find(open_turns_.begin(), open_turns_.end(), reported.turn) != open_turns_.end();
  return !elsewhere && contexts_.may_open(reported.offer.context_key);
}

void Scheduler::reopen_turn(Lane& lane, Job& job, TurnId turn) {
  job.view.running = true;
  job.move_to(JobState::running);
  view_.set_running(lane.id, job.view.id);
  lane.move_to(LaneState::granted);
  lane.bounded = false;
  lane.turn = {.id = turn,
               .lane = lane.id,
               .job = job.view.id,
               .envelope = {.region = lane.region.id,
                            .base = lane.region.offset,
                            .ceiling = lane.region.size,
                            .budget = {}}};
  open_turns_[lane.id.value() - 1] = turn;
  contexts_.opened(job.view.context_key);
}

// The job is not taken in: the worker ends its turn and forgets it, its bytes belong to nobody.
void Scheduler::reject(const Job& job, const ReportedJob& reported, ReasonCode code) {
  if (reported.turn.valid()) actions_.push_back(RecallTurn{reported.turn, reported.lane});
  actions_.push_back(RefuseJob{job.view.id, make_reason(code, job)});
  if (reported.lane.valid()) actions_.push_back(DropImage{job.view.id});
}

// All jobs are known: the lane gets the size that they need, and turns to those with work.
void Scheduler::settle_restored(Lane& lane) {
  std::vector<JobId> jobs;
  for (const policies::JobView* job : view_.lane(lane.id)->jobs) jobs.push_back(job->id);
  Bytes need;
  for (const JobId id : jobs) {
    Job& job = job_of(id);
    if (!pool_.could_ever_fit(job.view.persistent, job.view.ephemeral)) {
      refuse_for_good(job);  // its need grew past the pool while nobody listened
      continue;
    }
    need = std::max(need, pool_.rounded(job.view.ephemeral));
    if (job.work_announced) announce_work(job);
  }
  lane.fit_wanted = lane.fit_wanted || need != lane.region.size;
  touch(lane);
  if (lane.open() && need > lane.region.size) {
    mark_held(lane);
    recall(lane);
  }
}

}  // namespace laneway::lanes
