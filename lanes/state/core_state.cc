#include "lanes/state/core_state.h"

#include <algorithm>

#include "base/check.h"
#include "lanes/state/standing.h"

namespace laneway::lanes {

void SchedulerConfig::set_lanes(uint32_t asked, uint32_t processors) {
  keep_lanes = std::max(processors, 1U);
  max_lanes = asked > 0 ? std::min(asked, limits::kMaxLanes) : limits::kMaxLanes;
  lane_limit.measured = asked == 0;
  lane_limit.first = keep_lanes;
}

CoreState::CoreState(const SchedulerConfig& wanted)
    : config(wanted),
      pool(wanted.capacity, wanted.reserve, wanted.alignment),
      outside(wanted.store, wanted.spill, wanted.alignment),
      view(wanted.max_lanes),
      lanes(wanted.max_lanes),
      lane_limit(wanted.lane_limit, wanted.max_lanes),
      wanted_capacity(pool.capacity()) {
  if (wanted.wanted_capacity > wanted.reserve) {
    wanted_capacity =
        std::min(Bytes(wanted.wanted_capacity.count() & ~(wanted.alignment - 1)), pool.capacity());
  }
  LW_CHECK(wanted.max_lanes >= 1 && wanted.max_lanes <= limits::kMaxLanes,
           "the number of lanes is out of its limits");
  LW_CHECK(wanted.budget.iterations > 0 || wanted.budget.slice > Duration(0),
           "a turn's budget needs a bound");
  LW_CHECK(wanted.check_every > 0, "the state must be checked some time");
  for (size_t i = 0; i < lanes.size(); ++i) lanes[i].id = LaneId(i + 1);
  retry_at.fill(TimePoint::never());
  show_pool();
  changes.note(Changed::bounds);
}

Job* CoreState::find_job(JobId id) { return jobs.find(id); }

Job& CoreState::job_of(JobId id) {
  Job* job = find_job(id);
  LW_CHECK(job != nullptr, "the core lost a job");
  return *job;
}

const Job& CoreState::job_of(JobId id) const {
  const Job* job = jobs.find(id);
  LW_CHECK(job != nullptr, "the core lost a job");
  return *job;
}

Lane& CoreState::lane_of(LaneId id) {
  LW_CHECK(id.valid() && id.value() <= lanes.size(), "no such lane");
  return lanes[id.value() - 1];
}

Job CoreState::new_job(const JobOffered& offer) {
  Job job;
  job.view.id = offer.job;
  job.view.session = offer.session;
  job.view.options = offer.options;
  job.view.arrival = ++arrivals;
  job.view.queue = job.view.arrival;
  const bool asked_before = offer.offered_at > TimePoint() && offer.offered_at < now;
  job.view.offered_at = asked_before ? offer.offered_at : now;
  job.view.queued_at = job.view.offered_at;
  job.view.persistent = offer.persistent;
  job.view.ephemeral = offer.ephemeral;
  job.view.context_key = offer.context_key;
  job.view.iteration_estimate = offer.iteration_estimate;
  job.view.update_remaining();
  job.work_since = now;
  return job;
}

void CoreState::enqueue(Job& job) {
  job.view.queue = ++arrivals;
  job.view.queued_at = now;
  join_queue(job);
}

void CoreState::join_queue(Job& job) {
  view.add_waiting(job.view);
  to_tell.push_back(job.view.id);
  changes.note(Changed::queue);
}

void CoreState::quit_queue(Job& job) {
  view.remove_waiting(job.view);
  changes.note(Changed::queue);
}

void CoreState::enter_lane(Job& job, Lane& lane) {
  job.view.lane = lane.id;
  view.add_to_lane(job.view);
  touch(lane);
}

void CoreState::quit_lane(Job& job) {
  set_unready(job);
  view.remove_from_lane(job.view);
  want_fit(lane_of(job.view.lane));
  job.view.lane = {};
}

void CoreState::set_unready(Job& job) {
  if (job.view.ready) view.remove_ready(job.view);
  job.view.ready = false;
  touch(lane_of(job.view.lane));  // it may have nothing to run now
}

bool CoreState::needs_region(Lane& lane, std::span<const JobId> gone) {
  const auto is_gone = [gone](JobId job) {
    return std::binary_search(gone.begin(), gone.end(), job);
  };
  if (lane.needs_region.valid() && !is_gone(lane.needs_region)) return true;
  for (const policies::JobView* job : view.lane(lane.id)->jobs) {
    if (pool.rounded(job->ephemeral) < lane.region.size || is_gone(job->id)) continue;
    lane.needs_region = job->id;
    regions_needed |= set_of(lane.id);
    return true;
  }
  return false;
}

void CoreState::forget_needs(Lane& lane) {
  lane.needs_region = {};
  regions_needed &= ~set_of(lane.id);
}

void CoreState::touch(Lane& lane) {
  forget_needs(lane);
  note_order(lane);
}

void CoreState::note_order(Lane& lane) {
  lane.is_news = true;
  if (lane.touched || !changes.hears(Changed::lane)) return;
  lane.touched = true;
  touched.push_back(lane.id);
}

void CoreState::want_fit(Lane& lane) {
  lane.fit_wanted = changes.hears(Changed::fit);
  touch(lane);
}

void CoreState::report_region(Lane& lane) {
  forget_needs(lane);
  actions.push_back(ResizeRegion{lane.region.id, lane.region.offset, lane.region.size});
  view.set_region(lane.id, lane.region.size);
}

bool CoreState::take_room() {
  if (pool.take_freed()) changes.note(Changed::pool);
  if (!changes.take_room()) return false;
  changes.note(Changed::spread);
  show_pool();
  return true;
}

void CoreState::on_timer() {
  for (TimePoint& at : retry_at) {
    if (at > now) continue;
    at = TimePoint::never();
    changes.note(Changed::time);
  }
}

void CoreState::show_pool() {
  view.set_pool({.capacity = pool.capacity(),
                 .claimed = pool.claimed(),
                 .largest_free = pool.largest_free(),
                 .may_leave = outside.exists()});
}

void CoreState::outside_taken() {
  Bytes largest;
  for (const policies::JobView* one : view.waiting()) largest = std::max(largest, one->persistent);
  if (!outside.has_a_home_for(largest)) changes.note(Changed::jobs);
}

Reason CoreState::make_reason(ReasonCode code, const Job& job) const {
  // An otherwise empty pool has everything but the reserve.
  const bool empty_pool = code == ReasonCode::larger_than_pool;
  const bool is_exchange = code == ReasonCode::exchange_full || code == ReasonCode::no_exchange ||
                           code == ReasonCode::no_way_back;
  const Bytes capacity = std::min(pool.capacity(), wanted_capacity);
  return {.code = code,
          .persistent = job.view.persistent,
          .region = job.view.ephemeral,
          .capacity = empty_pool ? capacity - pool.reserve() : capacity,
          .claimed = pool.claimed(),
          .largest_free = pool.largest_free(),
          .outside = outside.capacity(),
          .outside_free = outside.largest_free(),
          .staying = is_exchange ? staying() : Bytes(),
          .may_leave = outside.exists()};
}

Bytes CoreState::staying() const {
  Bytes sum;
  if (homeless_jobs == 0) return sum;
  for (const auto& [id, job] : jobs) {
    if (is_homeless(job)) sum += pool.rounded(job.view.persistent);
  }
  return sum;
}

bool CoreState::admission_closed() const {
  return held_jobs() > 0 || wanted_capacity < pool.capacity();
}

JobStatus CoreState::status_of(const Job& job) const {
  const Tier tier = outside.place_of(job.view.id).tier;
  const Bytes image = job.view.persistent;
  const Standing standing = standing_of(*this, job);
  return {.id = job.view.id,
          .session = job.view.session,
          .options = job.view.options,
          // In its turns it only answers.
          .state = job.quarantined && job.view.running ? JobState::quarantined : job.state(),
          .lane = job.view.lane,
          .ready = job.view.ready,
          .offered_at = job.view.offered_at,
          .persistent = job.view.persistent,
          .ephemeral = job.view.ephemeral,
          .iterations = job.view.iterations,
          .device_time = job.view.busy,
          .late = {},
          .pauses = job.pauses,
          .paused = job.paused,
          .abandoned = job.abandoned,
          .reason = standing.reason,
          .waiting_since = standing.since,
          .pace = {},
          .pool_bytes = job.view.lane.valid() ? image : pool.prefix_of(job.view.id).size,
          .store_bytes = tier == Tier::store ? image : Bytes(),
          .spill_bytes = tier == Tier::spill ? image : Bytes(),
          .clean = job.image.clean,
          .arriving = job.image.state == ImageState::arriving,
          .pinned = job.pinned,
          .first_iteration = job.first_iteration,
          .last_iteration = job.last_iteration};
}

}  // namespace laneway::lanes
