// Scheduler, part: admission. The policy says who and where; here its answer is checked against the
// ledger, the free list and the number of lanes, and carried out completely or not at all.
#include <algorithm>

#include "lanes/scheduler.h"

namespace laneway::lanes {
namespace {

ReasonCode reason_of(Room room) {
  switch (room) {
    case Room::done: return ReasonCode::none;
    case Room::full: return ReasonCode::pool_full;
    case Room::fragmented: return ReasonCode::pool_fragmented;
  }
  return ReasonCode::pool_full;
}

}  // namespace

// Jobs that are in already come first: while one of them is held for memory, or the pool is to
// shrink, nobody else is let in.
bool Scheduler::admission_closed() const {
  return held_jobs_ > 0 || wanted_capacity_ < pool_.capacity();
}

void Scheduler::admit_waiting() {
  // Every round admits a job or marks one as tried, so this ends.
  while (!admission_closed() && !view_.waiting().empty()) {
    const policies::AdmitDecision decision = ask_admit();
    if (!decision.job.valid()) return;
    Job& job = job_of(decision.job);
    const ReasonCode code = try_admit(job, decision);
    if (code == ReasonCode::none) continue;
    job.reason = make_reason(code, job);
    job.view.tried_version = view_.version();
  }
}

policies::AdmitDecision Scheduler::ask_admit() {
  const policies::AdmitDecision decision = policy_->admit(now_, view_);
  if (admit_answer_ok(decision)) return decision;
  ++policy_faults_;
  return fallback_->admit(now_, view_);
}

bool Scheduler::admit_answer_ok(const policies::AdmitDecision& decision) {
  if (!decision.job.valid()) return true;
  const Job* job = find_job(decision.job);
  if (job == nullptr || job->state() != JobState::waiting) return false;
  if (view_.was_tried(job->view)) return false;
  return !decision.lane.valid() || view_.lane(decision.lane) != nullptr;
}

ReasonCode Scheduler::try_admit(Job& job, const policies::AdmitDecision& decision) {
  if (decision.lane.valid()) return admit_to_lane(job, lane_of(decision.lane));
  ReasonCode code = ReasonCode::lanes_exhausted;
  const LaneId free_lane = closed_lane();
  if (free_lane.valid()) {
    code = admit_to_new_lane(job, free_lane);
    if (code == ReasonCode::none) return code;
  }
  if (decision.may_share && admit_to_some_lane(job) == ReasonCode::none) return ReasonCode::none;
  return code;
}

LaneId Scheduler::closed_lane() const {
  for (const Lane& lane : lanes_) {
    if (lane.state() == LaneState::closed) return lane.id;
  }
  return {};
}

ReasonCode Scheduler::admit_to_new_lane(Job& job, LaneId id) {
  Lane& lane = lane_of(id);
  Room room = pool_.place_image(job.view.id, job.view.persistent, &job.image_offset);
  if (room != Room::done) return reason_of(room);
  lane.region = Region{};
  lane.region.id = region_ids_.next();
  lane.region.lane = id;
  room = pool_.open_region(lane.region, job.view.ephemeral);
  if (room != Room::done) {
    pool_.drop_image(job.view.id);
    lane.region = Region{};
    return reason_of(room);
  }
  lane.move_to(LaneState::idle);
  view_.open_lane(id, lane.region.size);
  actions_.push_back(AdmitJob{job.view.id, id});
  actions_.push_back(OpenRegion{lane.region.id, id, lane.region.offset, lane.region.size});
  enter_lane(job, lane);
  return ReasonCode::none;
}

ReasonCode Scheduler::admit_to_lane(Job& job, Lane& lane) {
  Room room = pool_.place_image(job.view.id, job.view.persistent, &job.image_offset);
  if (room != Room::done) return reason_of(room);
  const bool grows = pool_.rounded(job.view.ephemeral) > lane.region.size;
  if (grows && lane.open()) {
    // Only between two turns: if that is all that is missing, ask for the boundary.
    room = pool_.could_resize(lane.region, job.view.ephemeral);
    pool_.drop_image(job.view.id);
    if (room != Room::done) return reason_of(room);
    lane.admission_wanted = true;
    recall(lane);
    return ReasonCode::pool_full;
  }
  if (grows) room = pool_.resize_region(lane.region, job.view.ephemeral);
  if (room != Room::done) {
    pool_.drop_image(job.view.id);
    return reason_of(room);
  }
  actions_.push_back(AdmitJob{job.view.id, lane.id});
  if (grows) report_region(lane);
  enter_lane(job, lane);
  return ReasonCode::none;
}

// Preferred: a lane whose region is large enough, the one with the fewest jobs; then one that can
// grow now; then one that could grow between two turns (its turn is recalled and the job waits).
ReasonCode Scheduler::admit_to_some_lane(Job& job) {
  const Bytes need = pool_.rounded(job.view.ephemeral);
  Lane* roomy = nullptr;
  for (Lane& lane : lanes_) {
    if (lane.state() == LaneState::closed || lane.region.size < need) continue;
    const auto jobs_in = [this](const Lane& l) { return view_.lane(l.id)->jobs.size(); };
    if (roomy == nullptr || jobs_in(lane) < jobs_in(*roomy)) roomy = &lane;
  }
  if (roomy != nullptr) return admit_to_lane(job, *roomy);
  for (Lane& lane : lanes_) {
    if (lane.state() != LaneState::idle) continue;
    if (admit_to_lane(job, lane) == ReasonCode::none) return ReasonCode::none;
  }
  for (Lane& lane : lanes_) {
    if (!lane.open()) continue;
    admit_to_lane(job, lane);
    if (lane.admission_wanted) break;
  }
  return ReasonCode::pool_full;
}

void Scheduler::enter_lane(Job& job, Lane& lane) {
  view_.remove_waiting(job.view);
  job.view.lane = lane.id;
  view_.add_to_lane(job.view);
  job.reason = {};
  job.move_to(JobState::staged);
  actions_.push_back(PlaceImage{job.view.id, job.image_offset, pool_.rounded(job.view.persistent)});
  touch(lane);
}

void Scheduler::tell_queue() {
  uint32_t position = 0;
  for (const policies::JobView* view : view_.waiting()) {
    Job& job = job_of(view->id);
    ++position;
    if (!view_.was_tried(*view)) {
      // Nobody asked the pool about this one: it waits for those before it, the first one (while
      // admission is closed) for memory that others have a right to.
      const bool first_in_line = position == 1 && admission_closed();
      job.reason =
          make_reason(first_in_line ? ReasonCode::pool_full : ReasonCode::behind_others, job);
    }
    job.reason.position = position;
    if (job.reason.code == job.sent_reason.code && position == job.sent_reason.position) continue;
    job.sent_reason = job.reason;
    actions_.push_back(QueueJob{view->id, job.reason});
  }
}

}  // namespace laneway::lanes
