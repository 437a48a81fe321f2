#include "lanes/core/region_control.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>
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
  const Bytes size = lane.region.size;
  const Bytes wanted = wanted_size(lane);
  std::vector<Bytes> sizes = {wanted, core_.pool.rounded(Bytes(0))};
  for (const policies::JobView* view : core_.view.lane(lane.id)->jobs) {
    const Bytes must = core_.pool.rounded(core_.job_of(view->id).must);
    const Bytes need = core_.pool.rounded(view->ephemeral);
    sizes.push_back(need);
    // One that is held needs so much or nothing; the others can run their smaller graphs meanwhile.
    sizes.push_back(must > size ? must : std::min(need, size));
  }
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  for (const Bytes one : sizes) {
    if (one == size || resize_region(lane, one) == Room::done) break;
  }
  lane.wants_more = lane.region.size < wanted;
}

Bytes RegionControl::wanted_size(const Lane& lane) const {
  Bytes wanted;
  for (const policies::JobView* job : core_.view.lane(lane.id)->jobs) {
    wanted = std::max(wanted, job->ephemeral);
  }
  return core_.pool.rounded(wanted);
}

Room RegionControl::resize_region(Lane& lane, Bytes size) {
  const Room room = core_.pool.resize_region(lane.region, size);
  if (room != Room::done) return room;
  core_.report_region(lane);
  core_.changes.note(Changed::regions);
  return room;
}

void RegionControl::mark_held(Lane& lane) {
  for (const policies::JobView* view : core_.view.lane(lane.id)->jobs) {
    const Job& known = core_.job_of(view->id);
    const bool too_large = core_.pool.rounded(known.must) > lane.region.size;
    if (too_large ? known.state() != JobState::resident : known.state() != JobState::held) continue;
    Job& job = core_.job_of(view->id);
    if (too_large) {
      core_.set_unready(job);
      job.reason = core_.make_reason(ReasonCode::region_too_small, job);
      job.move_to(JobState::held);
    } else {
      job.reason = {};
      job.move_to(JobState::resident);
      // Now it can run: it is not to leave before it did.
      job.leave_no_sooner = std::max(job.leave_no_sooner, core_.now + core_.config.left_alone);
      if (job.work_announced) turns_.announce_work(job);
    }
  }
}

void RegionControl::close_lane(Lane& lane) {
  core_.actions.push_back(CloseRegion{lane.region.id});
  core_.pool.close_region(lane.region);
  core_.view.close_lane(lane.id);
  core_.forget_needs(lane);
  lane.move_to(LaneState::closed);
  lane.wants_more = false;
}

void RegionControl::set_need(Job& job, Bytes ephemeral) {
  if (job.quarantined) {
    job.need_when_released = ephemeral;
    return;
  }
  if (ephemeral == job.view.ephemeral) return;
  job.set_need(ephemeral);
  if (!core_.pool.could_ever_fit(job.view.persistent, ephemeral)) {
    exit_.refuse_for_good(job);
    return;
  }
  if (!job.view.lane.valid()) return;
  Lane& lane = core_.lane_of(job.view.lane);
  core_.want_fit(lane);
  if (!lane.open()) return;
  const bool too_large = core_.pool.rounded(ephemeral) > lane.region.size;
  if (too_large || core_.memory_wanted()) turns_.recall(lane);
}

void RegionControl::retry_held() {
  for (Lane& lane : core_.lanes) {
    if (!lane.wants_more) continue;
    if (lane.state() == LaneState::idle) fit_region(lane);
    lane.fit_wanted = lane.open();
  }
  if (core_.held_jobs() == 0) return;
  std::vector<const policies::JobView*> held;
  for (const policies::LaneView& lane : core_.view.lane_slots()) {
    for (const policies::JobView* job : lane.jobs) {
      if (core_.job_of(job->id).state() == JobState::held) held.push_back(job);
    }
  }
  std::sort(held.begin(), held.end(), [](const policies::JobView* a, const policies::JobView* b) {
    return a->arrival < b->arrival;
  });
  for (const policies::JobView* view : held) {
    Job& job = core_.job_of(view->id);
    if (job.state() != JobState::held) continue;  // its lane was grown for another one
    const Wish wish{.job = job};
    Room room = grow_for(job);
    if (room == Room::fragmented && slide_for(wish)) room = grow_for(job);
    // Tried again when some were given up.
    if (room == Room::done || eviction_.give_up_prefixes(wish)) continue;
    if (const LaneId other = changes_.room_for(job); other.valid()) {
      changes_.change(job, core_.lane_of(other));
      mark_held(core_.lane_of(other));
      continue;
    }
    if (room == Room::fragmented && moves_.make_room(wish)) continue;
    const Eviction::Outcome leaving = eviction_.make_room(wish);
    if (leaving == Eviction::Outcome::under_way || changes_.merge_for(wish)) continue;
    if (leaving == Eviction::Outcome::nobody) eviction_.leave_to_return(job);
  }
}

Room RegionControl::grow_for(const Job& held) {
  Lane& lane = core_.lane_of(held.view.lane);
  if (!lane.open()) {
    Room room = resize_region(lane, held.view.ephemeral);
    if (room != Room::done) room = resize_region(lane, held.must);
    if (room != Room::done) return room;
    lane.wants_more = lane.region.size < wanted_size(lane);
    mark_held(lane);
    core_.touch(lane);
    return room;
  }
  const Room room = core_.pool.could_resize(lane.region, held.must);
  if (room != Room::done) return room;
  lane.fit_wanted = true;
  turns_.recall_for(lane, held);
  return room;
}

bool RegionControl::slide_for(const Wish& wish) {
  if (core_.slides_left == 0 || !may_slide_for(core_, wish)) return false;
  std::vector<Region> slid;
  {
    RoomTrial trial(core_);
    if (!trial.slide_for(wish)) return false;
    slid = trial.regions();
    if (!trial.fits(wish)) return false;
  }
  {
    RoomTrial idle_ones(core_);
    idle_ones.slide(wish, /*idle_ones_only=*/true);
    if (slide_as_tried(idle_ones)) return true;
  }
  recall_to_slide(slid);
  return false;
}

void RegionControl::recall_to_slide(const std::vector<Region>& then) {
  for (size_t i = 0; i < then.size(); ++i) {
    Lane& lane = core_.lanes[i];
    if (!lane.open() || then[i].offset == lane.region.offset) continue;
    turns_.ask_boundary(lane);
  }
}

bool RegionControl::refuse_stuck() {
  const bool moves = !core_.leaving.empty() || core_.saving_jobs > 0 || core_.moving_jobs() > 0 ||
                     core_.leaves_or_moves_later();
  if (core_.held_jobs() == 0 || !core_.worker_up || moves) return false;
  Job* last = nullptr;
  std::vector<JobId> resting;
  for (auto& [id, job] : core_.jobs) {
    if (!job.view.lane.valid()) continue;
    if (job.state() == JobState::held) {
      if (last == nullptr || job.view.arrival > last->view.arrival) last = &job;
    } else if (job.state() != job.at_rest() || job.image.state == ImageState::arriving ||
               job.view.ready) {
      return false;
    } else if (job.view.options.job_class != JobClass::inference) {
      resting.push_back(id);  // a model that serves may never end
    }
  }
  if (last == nullptr || (!resting.empty() && end_would_help(resting))) return false;
  Reason reason = core_.make_reason(ReasonCode::no_room_to_grow, *last);
  reason.region = last->must;
  core_.counters.refused(reason.code);
  core_.actions.push_back(RefuseWork{last->view.id, reason});
  last->must = {};
  last->work_announced = true;  // what comes behind it
  Lane& lane = core_.lane_of(last->view.lane);
  core_.touch(lane);
  mark_held(lane);
  return true;
}

bool RegionControl::end_would_help(const std::vector<JobId>& resting) {
  const auto held = [](const auto& known) { return known.second.state() == JobState::held; };
  RoomTrial trial(core_);
  trial.leave(resting);
  const PoolMap& pool = trial.pool();
  const Bytes free =
      pool.capacity() - pool.claimed() + pool.ledger().revocable(memory::Revocation::on_demand);
  const JobTable& jobs = core_.jobs;
  return std::any_of(jobs.begin(), jobs.end(), [&](const auto& known) {
    if (!held(known)) return false;
    const Job& job = known.second;
    const Region& region = trial.regions()[job.view.lane.value() - 1];
    return pool.rounded(job.must) <= region.size + free;
  });
}

bool RegionControl::slide_as_tried(RoomTrial& now) {
  std::vector<Lane*> moved;
  for (size_t i = 0; i < core_.lanes.size(); ++i) {
    if (core_.lanes[i].region.offset != now.regions()[i].offset) moved.push_back(&core_.lanes[i]);
  }
  if (moved.empty()) return false;
  const auto to = [&](const Lane* lane) { return now.regions()[lane->id.value() - 1].offset; };
  // Those that go down first, the lowest of them first, then the highest: no two ranges overlap.
  std::sort(moved.begin(), moved.end(), [&to](const Lane* a, const Lane* b) {
    const bool a_sinks = to(a) < a->region.offset;
    const bool b_sinks = to(b) < b->region.offset;
    if (a_sinks != b_sinks) return a_sinks;
    return a_sinks ? to(a) < to(b) : to(a) > to(b);
  });
  for (Lane* lane : moved) {
    lane->region.offset = to(lane);
    core_.report_region(*lane);
  }
  now.keep();
  --core_.slides_left;
  return true;
}

void RegionControl::apply_capacity() {
  if (core_.wanted_capacity == core_.pool.capacity()) return;
  const bool shrinks = core_.wanted_capacity < core_.pool.capacity();
  if (shrinks) {
    make_room_below(core_.wanted_capacity);
    if (!moves_.make_room_above(core_.wanted_capacity) && !sink_for_moves(core_.wanted_capacity)) {
      eviction_.empty_above(core_.wanted_capacity);
      moves_.move_down();
    }
  }
  if (!core_.pool.set_capacity(core_.wanted_capacity)) return;
  core_.show_pool();
  core_.actions.push_back(ResizePool{core_.wanted_capacity});
  core_.changes.note(Changed::ended);  // as many jobs as before find room outside, or not
  if (shrinks) refuse_too_large();
}

void RegionControl::make_room_below(Bytes limit) {
  for (Lane& lane : core_.lanes) {
    if (lane.state() == LaneState::closed) continue;
    if (lane.region.offset + lane.region.size <= limit) continue;
    if (lane.open()) {
      if (!core_.pool.could_move_below(lane.region, limit)) continue;
      turns_.ask_boundary(lane);
    } else if (core_.pool.move_below(lane.region, limit)) {
      core_.report_region(lane);
    }
  }
}

bool RegionControl::sink_for_moves(Bytes limit) {
  if (core_.slides_left == 0 || !core_.worker_up || !core_.leaving.empty()) return false;
  std::vector<Region> sunk;
  {
    RoomTrial trial(core_);
    trial.sink(/*idle_ones_only=*/false);
    if (!moves_.could_make_room_above(trial, limit)) return false;
    sunk = trial.regions();
  }
  {
    RoomTrial idle_ones(core_);
    idle_ones.sink(/*idle_ones_only=*/true);
    if (slide_as_tried(idle_ones)) return true;
  }
  recall_to_slide(sunk);
  return false;
}

void RegionControl::recall_unfitted() {
  if (!core_.memory_wanted()) return;
  for (LaneSet some = core_.all_lanes() & ~core_.regions_needed; some != 0; some &= some - 1) {
    Lane& lane = core_.lanes[static_cast<size_t>(std::countr_zero(some))];
    if (lane.state() != LaneState::granted || !lane.fit_wanted) continue;
    if (!core_.needs_region(lane)) turns_.recall(lane);
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
