#include "lanes/core/scheduler.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "lanes/core/core_check.h"
#include "lanes/turns/turn_account.h"

namespace laneway::lanes {
namespace {

// Of one instant. A few do; two wishes that undo each other's changes would go on for ever.
constexpr uint32_t kMostRounds = 64;

}  // namespace

Scheduler::Scheduler(const SchedulerConfig& config, std::unique_ptr<policies::Policy> policy)
    : core_(config), policy_(std::move(policy)) {}

const std::vector<Action>& Scheduler::handle(TimePoint now, std::span<const Event> events) {
  core_.now = std::max(core_.now, now);
  core_.actions.clear();
  core_.slides_left = core_.config.max_lanes;
  advisory_.note(events);
  for (const Event& event : events) std::visit([this](const auto& what) { on(what); }, event);
  if (events.size() > 1) turns_.forget_old_recalls();
  if (std::exchange(policy_changed_, false)) {
    turns_.follow_policy();
    changes_.follow_policy();
  }
  settle();
  advisory_.tell();
  check(events);
  for (const LaneId id : core_.touched) core_.lane_of(id).touched = false;
  core_.touched.clear();
  return core_.actions;
}

const std::vector<Action>& Scheduler::look_again() {
  core_.actions.clear();
  core_.slides_left = core_.config.max_lanes;
  for (Lane& lane : core_.lanes) {
    if (lane.state() != LaneState::closed) core_.touch(lane);
  }
  // Who waits aside is tried again when others end (exchange.h); and while images are under way, or
  // a timer is set for those who wait for memory, nobody is forgotten.
  const bool looks_by_itself =
      !core_.leaving.empty() || core_.moving_jobs() > 0 || core_.leaves_or_moves_later();
  core_.changes.note_all(/*but_room=*/looks_by_itself);
  settle();
  for (const LaneId id : core_.touched) core_.lane_of(id).touched = false;
  core_.touched.clear();
  return core_.actions;
}

TimePoint Scheduler::next_wakeup() const {
  const TimePoint retry = *std::min_element(core_.retry_at.begin(), core_.retry_at.end());
  return std::min({retry, turns_.next_wakeup(), changes_.next_wakeup(), trials_.next_wakeup(),
                   save_ahead_.next_wakeup()});
}

void Scheduler::set_policy(std::unique_ptr<policies::Policy> policy) {
  policy_.replace(std::move(policy));
  policy_changed_ = true;
  advisory_.follow_policy();
  trials_.follow_policy();
  // Another policy may let in whom this one kept waiting: asked again with the next event.
  core_.changes.note(Changed::order);
}

void Scheduler::settle_once() {
  changes_.fold();
  while (true) {
    for (size_t i = 0; i < core_.touched.size(); ++i) {
      Lane& lane = core_.lane_of(core_.touched[i]);
      if (lane.state() != LaneState::idle) continue;
      if (lane.fit_wanted) regions_.fit_region(lane);
      if (std::exchange(lane.admission_wanted, false)) core_.changes.note(Changed::boundary);
    }
    if (core_.changes.take(Changed::ended)) exchange_.changed();
    const bool room = core_.take_room();
    if (!core_.changes.take(Changed::queue) && !room) break;
    if (room) core_.view.forget_tries();
    regions_.apply_capacity();
    regions_.retry_held();
    admission_.admit_waiting();
    admission_.tell_queue();
    regions_.recall_unfitted();
  }
  do {
    changes_.spread();
    for (size_t i = 0; i < core_.touched.size(); ++i)
      turns_.settle_lane(core_.lane_of(core_.touched[i]));
  } while (turns_.settle_contexts());
  turns_.settle_lane_turns();
  turns_.bound_open_turns();
}

void Scheduler::settle() {
  size_t done = 0;
  uint32_t rounds = 0;
  do {
    done = core_.actions.size();
    settle_once();
    // What went on may let others go on.
  } while ((core_.actions.size() != done && ++rounds < kMostRounds) ||
           (core_.held_jobs() > 0 && regions_.refuse_stuck()) || refuse_stuck());
}

bool Scheduler::refuse_stuck() {
  const TimePoint next = std::min(core_.retries_at(CoreState::Wait::merge), changes_.next_wakeup());
  return !core_.leaves_or_moves_later() && next == TimePoint::never() && exchange_.refuse_stuck();
}

void Scheduler::check(std::span<const Event> events) {
  const uint64_t before = events_ / core_.config.check_every;
  events_ += events.size();
  if (events_ / core_.config.check_every != before) {
    check_all(core_, turns_);
    return;
  }
  for (const LaneId id : core_.touched) {
    const Lane& lane = core_.lane_of(id);
    check_lane(core_, turns_, lane);
    if (lane.open()) check_job(core_, core_.job_of(lane.turn.job));
  }
  const auto check_its_job = [this](const auto& what) {
    if constexpr (requires { what.job; })
      if (const Job* job = core_.jobs.find(what.job)) check_job(core_, *job);
  };
  for (const Event& event : events) std::visit(check_its_job, event);
}

void Scheduler::on(const JobOffered& event) {
  if (!event.job.valid() || core_.find_job(event.job) != nullptr) {
    ++core_.ignored_events;
    return;
  }
  Job job = core_.new_job(event);
  const bool fits = core_.pool.could_ever_fit(event.persistent, event.ephemeral);
  if (!fits || core_.jobs.size() >= core_.config.max_jobs) {
    const ReasonCode code = fits ? ReasonCode::too_many_jobs : ReasonCode::larger_than_pool;
    core_.counters.refused(code);
    core_.actions.push_back(RefuseJob{event.job, core_.make_reason(code, job)});
    return;
  }
  core_.join_queue(core_.jobs.add(std::move(job)));
}

void Scheduler::on(const JobEnded& event) {
  Job* job = known_job(event.job);
  if (job == nullptr) return;
  exit_.end_job(*job, event.cancelled ? JobState::cancelled : JobState::finished);
  save_ahead_.look_soon();
}

void Scheduler::on(const TurnEnded& event) {
  Lane* const found = turns_.lane_of_turn(event.turn);
  if (found == nullptr) {
    ++core_.ignored_events;  // of a worker that was lost
    return;
  }
  Lane& lane = *found;
  Job& job = core_.job_of(lane.turn.job);
  const Stretch stretch = turns_.close_turn(lane);
  const IterationSum measured = account_for(core_.now, core_.now - lane.granted_at, event, job);
  trials_.turn_ended(job, lane.id, stretch, event.busy, measured);
  ask_about_work_in_front(job);
  job.abandoned += event.abandoned;
  if (job.ending) {
    exit_.forget_job(job, job.end_state);
    return;
  }
  if (event.end == TurnEnd::failed) {
    exit_.forget_job(job, JobState::failed);
    return;
  }
  if (event.more_ready || event.end == TurnEnd::out_of_lane) {
    job.work_announced = true;
    job.work_since = core_.now;
  }
  Bytes need = event.ephemeral > Bytes(0) ? event.ephemeral : job.need();
  Bytes must = event.must > Bytes(0) ? event.must : need;
  if (event.end == TurnEnd::out_of_lane) {
    // Whoever did not fit needs more than there was, whatever it says: else it would come back for
    // ever.
    const Bytes size = lane.region.size;
    if (must <= size) {
      must = size + std::max(Bytes(size.count() / 4), Bytes(core_.config.alignment));
    }
    need = std::max(need, must);
  }
  const JobId id = job.view.id;
  if (event.iterations > 0) job.must = {};
  regions_.set_need(job, need);
  if (core_.find_job(id) == nullptr) return;  // it can never fit any more
  if (event.end == TurnEnd::out_of_lane && !job.quarantined) {
    job.must = must;
    core_.want_fit(lane);
  }
  if (job.image.state == ImageState::leaving) return eviction_.leave_now(job);
  const bool was_for_nothing = event.iterations == 0 && !job.work_announced;
  if (std::exchange(job.unloaded, false) && was_for_nothing) return eviction_.unload(job);
  if (job.work_announced) {
    turns_.announce_work(job);
  } else {
    // Who has nothing to run may leave sooner, if there is a place to go to. To move it could be
    // asked before.
    if (core_.outside.exists() || core_.held_jobs() > 0) retry_those_who_wait();
    save_ahead_.look_soon();
  }
}

void Scheduler::on(const TurnPaused& event) {
  Lane* const lane = turns_.lane_of_turn(event.turn);
  lane != nullptr ? turns_.pause(*lane) : static_cast<void>(++core_.ignored_events);
}

void Scheduler::on(const TurnResumed& event) {
  Lane* const lane = turns_.lane_of_turn(event.turn);
  lane != nullptr ? turns_.resume(*lane, event.paused) : static_cast<void>(++core_.ignored_events);
}

// Somebody may leave for them now, or soon. The job can't note it: at each turn's end it would.
void Scheduler::retry_those_who_wait() {
  if (core_.memory_wanted()) core_.changes.note(Changed::jobs);
}

// The policy said when it lets somebody in whoever else waits; where no image can leave, that is
// by the known work in front of it (common_rules.h), which is less now. No room was freed.
void Scheduler::ask_about_work_in_front(const Job& job) {
  const bool waits = core_.retries_at(CoreState::Wait::admission) != TimePoint::never();
  if (!waits || core_.outside.exists() || job.view.options.total_iterations == 0) return;
  core_.changes.note(Changed::queue);
}

void Scheduler::on(const JobReleased& event) {
  Job* job = known_job(event.job);
  if (job == nullptr) return;
  if (!job->quarantined) {
    ++core_.ignored_events;
    return;
  }
  job->release();
  regions_.set_need(*job, job->need_when_released);
}

void Scheduler::rank_changed(const Job& job) {
  if (!job.view.lane.valid()) return;
  Lane& lane = core_.lane_of(job.view.lane);
  lane.rival_came = lane.rival_came || lane.open();
  core_.touch(lane);
}

void Scheduler::on(const TimeLearnt& event) {
  Job* job = known_job(event.job);
  if (job == nullptr) return;
  job->learn_iteration_time(event.iteration);
  rank_changed(*job);
}

void Scheduler::on(const JobChanged& event) {
  Job* job = known_job(event.job);
  if (job == nullptr) return;
  job->change(event.changes);
  turns_.ask_urgencies();
  rank_changed(*job);
}

void Scheduler::on(const WorkerLost& /*event*/) {
  core_.worker_up = false;
  trials_.worker_lost();
  // Its successor does not know what stayed of whom.
  for (auto& [id, job] : core_.jobs) {
    core_.pool.drop_prefix(id);
    if (job.image.state == ImageState::away) job.image.prefix = {};
  }
  core_.changes.note(Changed::bounds);
  for (Lane& lane : core_.lanes) {
    if (!lane.open()) continue;
    Job& job = core_.job_of(lane.turn.job);
    turns_.close_turn(lane);
    if (job.ending) {
      exit_.forget_job(job, job.end_state);
    } else {
      turns_.announce_work(job);  // what was interrupted is still queued
    }
  }
}

void Scheduler::on(const CapacityChanged& event) {
  const Bytes wanted(event.capacity.count() & ~(core_.config.alignment - 1));
  if (wanted <= core_.config.reserve) {
    ++core_.ignored_events;  // no pool would be left
    return;
  }
  core_.wanted_capacity = wanted;
  core_.changes.note(Changed::bounds);
}

void Scheduler::on(const TimerFired& /*event*/) {
  turns_.recall_overdue();
  core_.on_timer();
  changes_.on_timer();
  trials_.on_timer();
  save_ahead_.on_timer();
}

void Scheduler::on(const Advice& event) {
  Job* job = known_job(event.job);
  if (job == nullptr || !policy_.advise(core_, job->view, event.advice)) return;
  // Who waits goes by it, and who leaves for those.
  if (core_.memory_wanted()) core_.changes.note(Changed::order);
  rank_changed(*job);
}

void Scheduler::on(const AdviserChanged& event) {
  if (!policy_.is_advised()) {
    ++core_.ignored_events;
    return;
  }
  if (event.news == AdviserNews::asks) return advisory_.ask_all();
  const bool is_there = event.news == AdviserNews::came;
  policy_.set_adviser(is_there);
  is_there ? advisory_.came() : advisory_.went();
  // Everybody's place is another one: as if another policy decided.
  policy_changed_ = true;
  core_.changes.note(Changed::order);
}

Job* Scheduler::known_job(JobId id) {
  Job* job = core_.find_job(id);
  if (job == nullptr) ++core_.ignored_events;
  return job;
}

Snapshot Scheduler::snapshot() const {
  Snapshot all = take_snapshot(core_);
  all.policy = policy_.name();
  all.policy_faults = policy_.faults();
  std::vector<std::pair<JobId, uint32_t>> places;
  for (const policies::JobView* job : policy_.admission_order(core_)) {
    places.emplace_back(job->id, places.size() + 1);
  }
  std::sort(places.begin(), places.end());
  for (JobStatus& status : all.jobs) {
    const Job& job = core_.job_of(status.id);
    status.late = policy_.late(core_, job.view);
    if (job.queued() && core_.worker_up && !job.quarantined) {
      const auto place = std::lower_bound(places.begin(), places.end(), std::pair(status.id, 0U));
      LW_CHECK(place != places.end() && place->first == status.id, "it waits in the queue");
      status.reason.position = place->second;
    }
  }
  return all;
}

}  // namespace laneway::lanes
