// Scheduler, part: regions. A region has the size that its lane's neediest job wants; it changes
// only while no turn is open in the lane. A job for which there is no room is held, and the region
// shrinks to what the others need, so that held jobs never sit on memory that would free them.
#include <algorithm>

#include "base/check.h"
#include "lanes/scheduler.h"

namespace laneway::lanes {

void Scheduler::fit_region(Lane& lane) {
  lane.fit_wanted = false;
  if (view_.lane(lane.id)->jobs.empty()) {
    close_lane(lane);
    return;
  }
  fit_to_jobs(lane);
  mark_held(lane);
}

// The largest of its jobs' needs for which there is room.
void Scheduler::fit_to_jobs(Lane& lane) {
  std::vector<Bytes> needs;
  for (const policies::JobView* job : view_.lane(lane.id)->jobs) {
    needs.push_back(pool_.rounded(job->ephemeral));
  }
  needs.push_back(pool_.rounded(Bytes(0)));  // always possible: all are held
  std::sort(needs.begin(), needs.end(), std::greater<>());
  for (const Bytes need : needs) {
    if (need == lane.region.size) return;
    if (resize_region(lane, need) == Room::done) return;
  }
}

Room Scheduler::resize_region(Lane& lane, Bytes size) {
  const Region before = lane.region;
  const Room room = pool_.resize_region(lane.region, size);
  if (room != Room::done) return room;
  report_region(lane);
  // A region that shrank or moved left bytes behind that somebody may need.
  const bool covers = lane.region.offset <= before.offset &&
                      lane.region.offset + lane.region.size >= before.offset + before.size;
  if (!covers) memory_changed();
  return room;
}

void Scheduler::report_region(const Lane& lane) {
  actions_.push_back(ResizeRegion{lane.region.id, lane.region.offset, lane.region.size});
  view_.set_region(lane.id, lane.region.size);
}

// Puts every job of the lane on the right side of `held` after its region or their needs changed.
void Scheduler::mark_held(Lane& lane) {
  for (const policies::JobView* view : view_.lane(lane.id)->jobs) {
    Job& job = job_of(view->id);
    const bool too_large = pool_.rounded(view->ephemeral) > lane.region.size;
    if (too_large && job.state() == JobState::resident) {
      if (view->ready) view_.remove_ready(job.view);
      job.view.ready = false;
      job.reason = make_reason(ReasonCode::region_too_small, job);
      job.move_to(JobState::held);
      ++held_jobs_;
    } else if (!too_large && job.state() == JobState::held) {
      job.reason = {};
      job.move_to(JobState::resident);
      --held_jobs_;
      memory_changed();  // admission may be open again
      if (job.work_announced) announce_work(job);
    }
  }
}

void Scheduler::close_lane(Lane& lane) {
  actions_.push_back(CloseRegion{lane.region.id});
  pool_.close_region(lane.region);
  view_.close_lane(lane.id);
  lane.move_to(LaneState::closed);
  memory_changed();
}

void Scheduler::set_need(Job& job, Bytes ephemeral) {
  if (ephemeral == job.view.ephemeral) return;
  job.view.ephemeral = ephemeral;
  if (!pool_.could_ever_fit(job.view.persistent, ephemeral)) {
    refuse_for_good(job);
    return;
  }
  if (job.state() == JobState::waiting) {
    memory_changed();
    return;
  }
  Lane& lane = lane_of(job.view.lane);
  lane.fit_wanted = true;
  touch(lane);
  if (!lane.open()) return;
  const bool too_large = pool_.rounded(ephemeral) > lane.region.size;
  if (too_large || !view_.waiting().empty() || held_jobs_ > 0) recall(lane);
}

// Memory was freed: who is held gets it before anybody new, in order of arrival.
void Scheduler::retry_held() {
  if (held_jobs_ == 0) return;
  std::vector<const policies::JobView*> held;
  for (const policies::LaneView& lane : view_.lane_slots()) {
    for (const policies::JobView* job : lane.jobs) {
      if (job_of(job->id).state() == JobState::held) held.push_back(job);
    }
  }
  std::sort(held.begin(), held.end(), [](const policies::JobView* a, const policies::JobView* b) {
    return a->arrival < b->arrival;
  });
  for (const policies::JobView* job : held) {
    Lane& lane = lane_of(job->lane);
    if (pool_.rounded(job->ephemeral) <= lane.region.size) continue;  // grown for another one
    if (lane.open()) {
      if (pool_.could_resize(lane.region, job->ephemeral) != Room::done) continue;
      lane.fit_wanted = true;
      recall(lane);
    } else if (resize_region(lane, job->ephemeral) == Room::done) {
      mark_held(lane);
      touch(lane);
    }
  }
}

// Growing happens at once. Shrinking waits until everything above the new end is gone: nobody is
// admitted meanwhile, regions are moved down between turns, images end with their jobs.
void Scheduler::apply_capacity() {
  if (wanted_capacity_ == pool_.capacity()) return;
  const bool shrinks = wanted_capacity_ < pool_.capacity();
  if (shrinks) make_room_below(wanted_capacity_);
  if (!pool_.set_capacity(wanted_capacity_)) return;
  if (shrinks) refuse_too_large();
  memory_changed();
}

void Scheduler::make_room_below(Bytes limit) {
  for (Lane& lane : lanes_) {
    if (lane.state() == LaneState::closed) continue;
    if (lane.region.offset + lane.region.size <= limit) continue;
    if (lane.open()) {
      if (!pool_.could_move_below(lane.region, limit)) continue;
      lane.admission_wanted = true;
      recall(lane);
    } else if (pool_.move_below(lane.region, limit)) {
      report_region(lane);
      memory_changed();
    }
  }
}

// A region that is larger than its jobs need keeps its size while a turn is open, which is for ever
// where no rival ends it: not when somebody wants the memory.
void Scheduler::recall_unfitted() {
  if (view_.waiting().empty() && held_jobs_ == 0) return;
  for (Lane& lane : lanes_) {
    if (lane.open() && lane.fit_wanted) recall(lane);
  }
}

// The pool got smaller for good: who can never fit now is told so.
void Scheduler::refuse_too_large() {
  std::vector<JobId> too_large;
  for (const auto& [id, job] : jobs_) {
    if (!pool_.could_ever_fit(job.view.persistent, job.view.ephemeral)) too_large.push_back(id);
  }
  for (const JobId id : too_large) refuse_for_good(job_of(id));
}

}  // namespace laneway::lanes
