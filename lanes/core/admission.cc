#include "lanes/core/admission.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "lanes/state/counted.h"

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

void Admission::admit_waiting() {
  core_.retry_at[static_cast<size_t>(CoreState::Wait::admission)] = TimePoint::never();
  // Every round admits a job or marks one as tried, so this ends.
  while (!core_.admission_closed() && !core_.view.waiting().empty()) {
    const policies::AdmitDecision decision = policy_.admit(core_);
    if (!decision.job.valid()) {
      core_.retry_by(CoreState::Wait::admission, std::max(decision.again, core_.now));
      return;
    }
    Job& job = core_.job_of(decision.job);
    if (!decision.overdue && is_room_of_others(job)) {
      put_off(job, ReasonCode::behind_others);
      continue;
    }
    const ReasonCode code = try_admit_with_home(job, decision);
    if (code == ReasonCode::none) {
      job.was_overdue = decision.overdue;
      continue;
    }
    if (code == ReasonCode::exchange_full) {
      exchange_.turn_down(job, decision.may_share);
      continue;
    }
    const bool fragmented = code == ReasonCode::pool_fragmented;
    const Wish wish{job, &decision};
    if (fragmented && regions_.slide_for(wish)) continue;
    if (eviction_.give_up_prefixes(wish)) continue;
    if (!fragmented || !moves_.make_room(wish)) {
      const Eviction::Outcome leaving = eviction_.make_room(wish);
      if (leaving != Eviction::Outcome::under_way) (void)changes_.merge_for(wish);
    }
    put_off(job, code);
  }
}

void Admission::put_off(Job& job, ReasonCode code) {
  job.reason = core_.make_reason(code, job);
  job.view.tried_version = core_.view.version();
  core_.to_tell.push_back(job.view.id);
}

bool Admission::is_room_of_others(const Job& job) const {
  // Its own image gave up room for one that still waits.
  const Job* const served = core_.jobs.find(job.left_for);
  if (served != nullptr && served->queued() && policy_.goes_before(core_, served->view, job.view)) {
    return true;
  }
  return std::any_of(core_.leaving.begin(), core_.leaving.end(), [&](JobId leaves) {
    const Job* const other = core_.jobs.find(core_.job_of(leaves).leaves_for);
    return other != nullptr && other != &job && other->queued() &&
           eviction_.is_making_room_for(other->view.id) &&
           policy_.goes_before(core_, other->view, job.view);
  });
}

ReasonCode Admission::try_admit_with_home(Job& job, const policies::AdmitDecision& decision) {
  if (!core_.outside.exists() || job.state() != JobState::waiting) return try_admit(job, decision);
  may_share_ = decision.may_share;
  breaks_exchange_ = !exchange_.prepare(job, decision.may_share);
  ReasonCode code = ReasonCode::exchange_full;
  if (!breaks_exchange_) code = try_admit(job, decision);
  if (code == ReasonCode::none) {
    core_.homeless_jobs += core_.is_homeless(job);
    core_.outside_taken();
    return code;
  }
  exchange_.give_back(job);
  return breaks_exchange_ ? ReasonCode::exchange_full : code;
}

bool Admission::may_stay(const Job& job, const Lane& lane) {
  if (!core_.outside.exists() || job.state() == JobState::away) return true;
  breaks_exchange_ = !exchange_.holds_with(job, lane.id, may_share_);
  return !breaks_exchange_;
}

ReasonCode Admission::try_admit(Job& job, const policies::AdmitDecision& decision) {
  const LaneId free_lane = closed_lane();
  const bool may_open = free_lane.valid() && (!decision.may_share || may_enter(job, free_lane));
  if (!decision.lane.valid() && !may_open && !decision.may_share) {
    return ReasonCode::lanes_exhausted;
  }
  // Most that fail do so by this, whatever lane it would be.
  if (!core_.pool.prefix_of(job.view.id).exists()) {
    const Room room = core_.pool.could_place_image(job.view.persistent);
    if (room != Room::done) return reason_of(room);
  }
  bool asked = false;
  if (decision.lane.valid()) return admit_to_lane(job, core_.lane_of(decision.lane), &asked);
  ReasonCode code = ReasonCode::lanes_exhausted;
  if (may_open) {
    code = admit_to_new_lane(job, free_lane);
    if (code == ReasonCode::none) return code;
  }
  if (!decision.may_share) return code;
  // Where a lane that is there has the bytes, if not in one piece, there is a way to it, which a
  // lane of its own may not have. Where no lane may be opened, it is what the job waits for.
  const ReasonCode joined = admit_to_some_lane(job);
  const bool better = joined == ReasonCode::none || joined == ReasonCode::pool_fragmented;
  return better || code == ReasonCode::lanes_exhausted ? joined : code;
}

LaneId Admission::closed_lane() const {
  if (core_.view.open_lanes() == core_.lanes.size()) return {};
  for (const Lane& lane : core_.lanes) {
    if (lane.state() == LaneState::closed) return lane.id;
  }
  return {};
}

ReasonCode Admission::admit_to_new_lane(Job& job, LaneId id) {
  Lane& lane = core_.lane_of(id);
  const ImagePrefix stayed = core_.pool.prefix_of(job.view.id);
  PoolAttempt attempt(core_.pool);
  Region region{.id = {}, .lane = id, .offset = {}, .size = {}, .claim = {}};
  const Room room = enter(job, region);
  if (room != Room::done) return reason_of(room);
  lane.region = region;
  if (!may_stay(job, lane)) {
    lane.region = {};
    return ReasonCode::exchange_full;
  }
  attempt.keep(/*frees=*/false);  // the job takes more than it gave up
  lane.move_to(LaneState::idle);
  core_.view.open_lane(id, lane.region.size);
  admit(job, lane, stayed);
  core_.actions.push_back(OpenRegion{lane.region.id, id, lane.region.offset, lane.region.size});
  enter_lane(job, lane);
  return ReasonCode::none;
}

Room Admission::enter(Job& job, Region& region) {
  Room room = Room::fragmented;
  for (const Way way : kWays) {
    if ((room = enter_as(job, region, way)) == Room::done) break;
  }
  return room;
}

Room Admission::enter_as(Job& job, Region& region, Way way) {
  PoolAttempt attempt(core_.pool);
  Room room = place(job, way);
  if (room != Room::done) return room;
  const Bytes need = job.view.ephemeral;
  if (region.size == Bytes()) {
    region.id = core_.region_ids.next();
    room = core_.pool.open_region(region, need);
  } else if (core_.pool.rounded(need) > region.size) {
    room = core_.pool.resize_region(region, need);
  }
  if (room == Room::done) attempt.keep();
  return room;
}

Room Admission::place(Job& job, Way way) {
  const JobId id = job.view.id;
  const Bytes size = job.view.persistent;
  const ImagePrefix stayed = core_.pool.prefix_of(id);
  bool placed = false;
  switch (way) {
    case Way::grown:
      placed = core_.pool.grow_prefix(id, size);
      if (placed) job.image_offset = stayed.offset;
      break;
    case Way::former:
      placed = job.state() == JobState::away && !stayed.exists() &&
               core_.pool.claim_image(id, size, job.image_offset, core_.pool.rounded(size));
      break;
    case Way::moved:
      placed = stayed.exists() && core_.pool.place_image(id, size, &job.image_offset) == Room::done;
      break;
    case Way::anew:
      core_.pool.drop_prefix(id);
      comes_with_ = {};
      return core_.pool.place_image(id, size, &job.image_offset);
  }
  comes_with_ = stayed;
  return placed ? Room::done : Room::fragmented;
}

ReasonCode Admission::admit_to_lane(Job& job, Lane& lane, bool* asked) {
  const ImagePrefix stayed = core_.pool.prefix_of(job.view.id);
  const bool grows = core_.pool.rounded(job.view.ephemeral) > lane.region.size;
  PoolAttempt attempt(core_.pool);
  Region region = lane.region;
  const Room room = enter(job, region);
  if (room != Room::done) return reason_of(room);
  if (grows && lane.open()) {
    // Only between two turns: that is all that is missing, so ask for the boundary.
    lane.admission_wanted = true;
    turns_.recall_for(lane, job);
    *asked = true;
    return ReasonCode::pool_full;
  }
  std::swap(lane.region, region);
  if (!may_stay(job, lane)) {
    lane.region = region;
    return ReasonCode::exchange_full;
  }
  attempt.keep(/*frees=*/false);
  admit(job, lane, stayed);
  if (grows) core_.report_region(lane);
  enter_lane(job, lane);
  return ReasonCode::none;
}

bool Admission::may_enter(const Job& job, LaneId lane) const {
  return !is_counted(job.view) || takes_counted(core_, lane);
}

ReasonCode Admission::admit_to_some_lane(Job& job) {
  bool asked = false;
  if (!is_counted(job.view) || takes_more_counted(core_)) {
    return admit_to_one_of(core_.all_lanes(), job, &asked);
  }
  LaneSet all = 0;
  LaneSet enters = 0;
  for (const Lane& lane : core_.lanes) {
    if (lane.state() == LaneState::closed) continue;
    all |= set_of(lane.id);
    if (is_counted(core_, lane.id)) enters |= set_of(lane.id);
  }
  const ReasonCode code = admit_to_one_of(enters, job, &asked);
  const bool is_last = code == ReasonCode::none || asked || enters == all;
  return is_last ? code : admit_to_one_of(all & ~enters, job, &asked);
}

ReasonCode Admission::admit_to_one_of(LaneSet lanes, Job& job, bool* asked) {
  const Bytes need = core_.pool.rounded(job.view.ephemeral);
  const auto is_one = [lanes](const Lane& lane) { return (lanes & set_of(lane.id)) != 0; };
  LaneId roomy;
  size_t fewest = SIZE_MAX;
  const auto& slots = core_.view.lane_slots();
  for (LaneSet left = lanes; left != 0; left &= left - 1) {
    const policies::LaneView& slot = slots[static_cast<size_t>(std::countr_zero(left))];
    if (slot.region < need || slot.jobs.size() >= fewest) continue;
    roomy = slot.id;
    fewest = slot.jobs.size();
  }
  if (roomy.valid()) return admit_to_lane(job, core_.lane_of(roomy), asked);
  ReasonCode code = ReasonCode::pool_full;
  for (Lane& lane : core_.lanes) {
    if (!is_one(lane) || lane.state() != LaneState::idle) continue;
    const ReasonCode joined = admit_to_lane(job, lane, asked);
    if (joined == ReasonCode::none) return joined;
    if (joined == ReasonCode::pool_fragmented) code = joined;
  }
  for (Lane& lane : core_.lanes) {
    if (!is_one(lane) || !lane.open()) continue;
    if (*asked) {
      // Another one's boundary may come first.
      if (core_.pool.could_resize(lane.region, need) == Room::done) lane.admission_wanted = true;
      continue;
    }
    const ReasonCode joined = admit_to_lane(job, lane, asked);
    if (*asked || joined == ReasonCode::pool_fragmented) code = joined;
  }
  return code;
}

void Admission::admit(const Job& job, const Lane& lane, const ImagePrefix& stayed) {
  if (stayed.exists() && !comes_with_.exists()) core_.actions.push_back(DropPrefix{job.view.id});
  core_.actions.push_back(AdmitJob{job.view.id, lane.id});
}

void Admission::enter_lane(Job& job, Lane& lane) {
  core_.view.remove_waiting(job.view);
  core_.enter_lane(job, lane);
  job.reason = {};
  job.told = ReasonCode::none;
  job.wanted_in = false;
  job.admitted_at = core_.now;
  if (is_counted(job.view)) core_.lane_limit.jobs_changed(core_.now);
  if (job.state() == JobState::away) core_.coming.push_back(job.view.id);
  job.move_to(job.state() == JobState::away ? JobState::restoring : JobState::staged);
  job.image.come(comes_with_);
  core_.actions.push_back(PlaceImage{job.view.id, job.image_offset,
                                     core_.pool.rounded(job.view.persistent), job.image.prefix});
}

void Admission::tell_queue() {
  const auto& waiting = core_.view.waiting();
  const bool closed = core_.admission_closed();
  if (closed && !waiting.empty()) core_.to_tell.push_back(waiting.front()->id);
  for (const JobId id : core_.to_tell) {
    Job* job = core_.find_job(id);
    if (job == nullptr || !job->queued()) continue;
    if (!core_.view.was_tried(job->view)) {
      // Nobody asked the pool about this one: it waits for those before it, the first one (while
      // admission is closed) for memory that others have a right to.
      const bool first_in_line = closed && waiting.front() == &job->view;
      job->reason = core_.make_reason(
          first_in_line ? ReasonCode::pool_full : ReasonCode::behind_others, *job);
    }
    if (job->reason.code == job->told) continue;
    job->told = job->reason.code;
    Reason reason = job->reason;
    reason.position = policy_.position_of(core_, job->view);
    core_.actions.push_back(QueueJob{id, reason});
  }
  core_.to_tell.clear();
}

}  // namespace laneway::lanes
