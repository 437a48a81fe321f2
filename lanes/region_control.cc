#include "lanes/region_control.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace laneway::lanes {

void RegionControl::fit_region(Lane& lane) {
  lane.fit_wanted = false;
  if (core_.view.lane(lane.id)->jobs.empty()) {
    close_lane(lane);
    return;
  }
  fit_to_jobs(lane);
  mark_held(lane);
}

void RegionControl::fit_to_jobs(Lane& lane) {
  std::vector<Bytes> needs;
  for (const policies::JobView* job : core_.view.lane(lane.id)->jobs) {
    needs.push_back(core_.pool.rounded(job->ephemeral));
  }
  needs.push_back(core_.pool.rounded(Bytes(0)));  // always possible: all are held
  std::sort(needs.begin(), needs.end(), std::greater<>());
  for (const Bytes need : needs) {
    if (need == lane.region.size) return;
    if (resize_region(lane, need) == Room::done) return;
  }
}

Room RegionControl::resize_region(Lane& lane, Bytes size) {
  const Region before = lane.region;
  const Room room = core_.pool.resize_region(lane.region, size);
  if (room != Room::done) return room;
  report_region(lane);
  // A region that shrank or moved left bytes behind that somebody may need.
  const bool covers = lane.region.offset <= before.offset &&
                      lane.region.offset + lane.region.size >= before.offset + before.size;
  if (!covers) core_.memory_changed();
  return room;
}

void RegionControl::report_region(const Lane& lane) {
  core_.actions.push_back(ResizeRegion{lane.region.id, lane.region.offset, lane.region.size});
  core_.view.set_region(lane.id, lane.region.size);
}

void RegionControl::mark_held(Lane& lane) {
  for (const policies::JobView* view : core_.view.lane(lane.id)->jobs) {
    Job& job = core_.job_of(view->id);
    const bool too_large = core_.pool.rounded(view->ephemeral) > lane.region.size;
    if (too_large && job.state() == JobState::resident) {
      if (view->ready) core_.view.remove_ready(job.view);
      job.view.ready = false;
      job.reason = core_.make_reason(ReasonCode::region_too_small, job);
      job.move_to(JobState::held);
      ++core_.held_jobs;
    } else if (!too_large && job.state() == JobState::held) {
      job.reason = {};
      job.move_to(JobState::resident);
      --core_.held_jobs;
      core_.memory_changed();  // admission may be open again
      if (job.work_announced) turns_.announce_work(job);
    }
  }
}

void RegionControl::close_lane(Lane& lane) {
  core_.actions.push_back(CloseRegion{lane.region.id});
  core_.pool.close_region(lane.region);
  core_.view.close_lane(lane.id);
  lane.move_to(LaneState::closed);
  core_.memory_changed();
}

void RegionControl::set_need(Job& job, Bytes ephemeral) {
  if (job.quarantined) {
    job.need_when_released = ephemeral;
    return;
  }
  if (ephemeral == job.view.ephemeral) return;
  job.view.ephemeral = ephemeral;
  if (!core_.pool.could_ever_fit(job.view.persistent, ephemeral)) {
    exit_.refuse_for_good(job);
    return;
  }
  if (!job.view.lane.valid()) {
    core_.memory_changed();
    return;
  }
  Lane& lane = core_.lane_of(job.view.lane);
  lane.fit_wanted = true;
  core_.touch(lane);
  if (!lane.open()) return;
  const bool too_large = core_.pool.rounded(ephemeral) > lane.region.size;
  if (too_large || !core_.view.waiting().empty() || core_.held_jobs > 0) turns_.recall(lane);
}

void RegionControl::retry_held() {
  if (core_.held_jobs == 0) return;
  std::vector<const policies::JobView*> held;
  for (const policies::LaneView& lane : core_.view.lane_slots()) {
    for (const policies::JobView* job : lane.jobs) {
      if (core_.job_of(job->id).state() == JobState::held) held.push_back(job);
    }
  }
  std::sort(held.begin(), held.end(), [](const policies::JobView* a, const policies::JobView* b) {
    return a->arrival < b->arrival;
  });
  for (const policies::JobView* job : held) {
    Lane& lane = core_.lane_of(job->lane);
    if (core_.pool.rounded(job->ephemeral) <= lane.region.size) continue;  // grown for another one
    if (lane.open() && core_.pool.could_resize(lane.region, job->ephemeral) == Room::done) {
      lane.fit_wanted = true;
      turns_.recall_for(lane, core_.job_of(job->id));
    } else if (!lane.open() && resize_region(lane, job->ephemeral) == Room::done) {
      mark_held(lane);
      core_.touch(lane);
    } else {
      eviction_.make_room_to_grow(core_.job_of(job->id));
    }
  }
}

void RegionControl::apply_capacity() {
  if (core_.wanted_capacity == core_.pool.capacity()) return;
  const bool shrinks = core_.wanted_capacity < core_.pool.capacity();
  if (shrinks) {
    make_room_below(core_.wanted_capacity);
    eviction_.empty_above(core_.wanted_capacity);
  }
  if (!core_.pool.set_capacity(core_.wanted_capacity)) return;
  if (shrinks) refuse_too_large();
  core_.memory_changed();
}

void RegionControl::make_room_below(Bytes limit) {
  for (Lane& lane : core_.lanes) {
    if (lane.state() == LaneState::closed) continue;
    if (lane.region.offset + lane.region.size <= limit) continue;
    if (lane.open()) {
      if (!core_.pool.could_move_below(lane.region, limit)) continue;
      lane.admission_wanted = true;
      turns_.recall(lane);
    } else if (core_.pool.move_below(lane.region, limit)) {
      report_region(lane);
      core_.memory_changed();
    }
  }
}

void RegionControl::recall_unfitted() {
  if (core_.view.waiting().empty() && core_.held_jobs == 0) return;
  for (Lane& lane : core_.lanes) {
    if (lane.open() && lane.fit_wanted) turns_.recall(lane);
  }
}

void RegionControl::refuse_too_large() {
  std::vector<JobId> too_large;
  for (const auto& [id, job] : core_.jobs) {
    if (!core_.pool.could_ever_fit(job.view.persistent, job.view.ephemeral))
      too_large.push_back(id);
  }
  for (const JobId id : too_large) exit_.refuse_for_good(core_.job_of(id));
}

}  // namespace laneway::lanes
