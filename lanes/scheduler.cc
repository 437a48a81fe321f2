#include "lanes/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "policies/fifo.h"

namespace laneway::lanes {

Scheduler::Scheduler(const SchedulerConfig& config, std::unique_ptr<policies::Policy> policy)
    : config_(config),
      policy_(std::move(policy)),
      fallback_(std::make_unique<policies::Fifo>()),
      pool_(config.capacity, config.reserve, config.alignment),
      view_(config.max_lanes),
      lanes_(config.max_lanes),
      open_turns_(config.max_lanes),
      deadlines_(config.max_lanes, TimePoint::never()),
      wanted_capacity_(pool_.capacity()) {
  LW_CHECK(config.max_lanes >= 1 && config.max_lanes <= limits::kMaxLanes,
           "the number of lanes is out of its limits");
  LW_CHECK(config.budget.iterations > 0 || config.budget.slice > Duration(0),
           "a turn's budget needs a bound");
  LW_CHECK(policy_ != nullptr, "a scheduler needs a policy");
  for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i].id = LaneId(i + 1);
  memory_changed();
}

const std::vector<Action>& Scheduler::handle(TimePoint now, const Event& event) {
  now_ = std::max(now_, now);
  actions_.clear();
  std::visit([this](const auto& what) { on(what); }, event);
  settle();
  return actions_;
}

TimePoint Scheduler::next_wakeup() const {
  return *std::min_element(deadlines_.begin(), deadlines_.end());
}

void Scheduler::set_policy(std::unique_ptr<policies::Policy> policy) {
  LW_CHECK(policy != nullptr, "a scheduler needs a policy");
  policy_ = std::move(policy);
  // Another policy may let in whom this one kept waiting: asked again with the next event.
  memory_changed();
}

void Scheduler::settle() {
  while (true) {
    for (size_t i = 0; i < touched_.size(); ++i) {
      Lane& lane = lane_of(touched_[i]);
      if (lane.state() != LaneState::idle) continue;
      if (lane.fit_wanted) fit_region(lane);
      if (std::exchange(lane.admission_wanted, false)) memory_changed();
    }
    if (!memory_changed_ && !queue_changed_) break;
    if (memory_changed_) view_.forget_tries();
    memory_changed_ = false;
    queue_changed_ = false;
    apply_capacity();
    retry_held();
    admit_waiting();
    tell_queue();
    recall_unfitted();
  }
  for (size_t i = 0; i < touched_.size(); ++i) try_grant(lane_of(touched_[i]));
  if (contexts_.contended()) switch_context();
  for (const LaneId id : touched_) lane_of(id).touched = false;
  touched_.clear();
}

void Scheduler::on(const JobOffered& event) {
  if (!event.job.valid() || find_job(event.job) != nullptr) {
    ++ignored_events_;
    return;
  }
  Job job = new_job(event);
  const bool fits = pool_.could_ever_fit(event.persistent, event.ephemeral);
  if (!fits || jobs_.size() >= config_.max_jobs) {
    const ReasonCode code = fits ? ReasonCode::too_many_jobs : ReasonCode::larger_than_pool;
    actions_.push_back(RefuseJob{event.job, make_reason(code, job)});
    return;
  }
  const Job& kept = jobs_.emplace(event.job, std::move(job)).first->second;
  view_.add_waiting(kept.view);
  queue_changed_ = true;
}

Job Scheduler::new_job(const JobOffered& offer) {
  Job job;
  job.name = offer.name;
  job.view.id = offer.job;
  job.view.session = offer.session;
  job.view.job_class = offer.job_class;
  job.view.priority = offer.priority;
  job.view.weight = offer.weight;
  job.view.arrival = ++arrivals_;
  job.view.offered_at = now_;
  job.view.persistent = offer.persistent;
  job.view.ephemeral = offer.ephemeral;
  job.view.context_key = offer.context_key;
  job.view.total_iterations = offer.total_iterations;
  job.view.iteration_estimate = offer.iteration_estimate;
  job.view.update_remaining();
  return job;
}

void Scheduler::on(const JobEnded& event) {
  Job* job = find_job(event.job);
  if (job == nullptr) {
    ++ignored_events_;
    return;
  }
  end_job(*job, event.cancelled ? JobState::cancelled : JobState::finished);
}

void Scheduler::on(const WorkReady& event) {
  Job* job = find_job(event.job);
  if (job == nullptr) {
    ++ignored_events_;
    return;
  }
  announce_work(*job);
}

void Scheduler::on(const NeedChanged& event) {
  Job* job = find_job(event.job);
  if (job == nullptr) {
    ++ignored_events_;
    return;
  }
  set_need(*job, event.ephemeral);
}

void Scheduler::on(const ImagePlaced& event) {
  Job* job = find_job(event.job);
  if (job == nullptr || job->state() != JobState::staged) {
    ++ignored_events_;
    return;
  }
  become_resident(*job);
}

void Scheduler::on(const WorkerLost& /*event*/) {
  worker_up_ = false;
  for (Lane& lane : lanes_) {
    if (!lane.open()) continue;
    Job& job = job_of(lane.turn.job);
    close_turn(lane);
    if (job.ending) {
      forget_job(job, job.end_state);
    } else {
      announce_work(job);  // what was interrupted is still queued
    }
  }
}

void Scheduler::on(const CapacityChanged& event) {
  const Bytes wanted(event.capacity.count() & ~(config_.alignment - 1));
  if (wanted <= config_.reserve) {
    ++ignored_events_;  // no pool would be left
    return;
  }
  wanted_capacity_ = wanted;
  memory_changed();
}

void Scheduler::on(const TimerFired& /*event*/) {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (deadlines_[i] > now_) continue;
    deadlines_[i] = TimePoint::never();
    Lane& lane = lanes_[i];
    const bool wanted = lane.fit_wanted || lane.admission_wanted || contexts_.contended() ||
                        !view_.lane(lane.id)->ready.empty();
    if (wanted) {
      recall(lane);
    } else {
      lane.bounded = false;  // whoever comes next recalls it at once
    }
  }
}

Job* Scheduler::find_job(JobId id) {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

Job& Scheduler::job_of(JobId id) {
  Job* job = find_job(id);
  LW_CHECK(job != nullptr, "the core lost a job");
  return *job;
}

Lane& Scheduler::lane_of(LaneId id) {
  LW_CHECK(id.valid() && id.value() <= lanes_.size(), "no such lane");
  return lanes_[id.value() - 1];
}

void Scheduler::touch(Lane& lane) {
  if (lane.touched) return;
  lane.touched = true;
  touched_.push_back(lane.id);
}

void Scheduler::memory_changed() {
  memory_changed_ = true;
  view_.set_pool({.capacity = pool_.capacity(),
                  .claimed = pool_.claimed(),
                  .largest_free = pool_.largest_free()});
}

void Scheduler::end_job(Job& job, JobState end_state) {
  if (job.ending) return;
  if (job.state() != JobState::running) {
    forget_job(job, end_state);
    return;
  }
  job.ending = true;
  job.end_state = end_state;
  recall(lane_of(job.view.lane));
}

void Scheduler::forget_job(Job& job, JobState end_state) {
  const JobId id = job.view.id;
  if (job.state() == JobState::waiting) {
    view_.remove_waiting(job.view);
    queue_changed_ = true;
  } else {
    if (job.state() == JobState::held) --held_jobs_;
    Lane& lane = lane_of(job.view.lane);
    if (job.view.ready) view_.remove_ready(job.view);
    view_.remove_from_lane(job.view);
    actions_.push_back(DropImage{id});
    pool_.drop_image(id);
    lane.fit_wanted = true;
    touch(lane);
    // The lane's region may shrink: between two turns, and soon if others wait for memory.
    if (lane.open() && (!view_.waiting().empty() || held_jobs_ > 0)) recall(lane);
    memory_changed();
  }
  job.move_to(end_state);
  job.view.lane = {};
  ended_.push_back(status_of(job));
  if (ended_.size() > kEndedRemembered) ended_.pop_front();
  jobs_.erase(id);
}

void Scheduler::refuse_for_good(Job& job) {
  actions_.push_back(RefuseJob{job.view.id, make_reason(ReasonCode::larger_than_pool, job)});
  job.reason = make_reason(ReasonCode::larger_than_pool, job);
  end_job(job, JobState::failed);
}

Reason Scheduler::make_reason(ReasonCode code, const Job& job) const {
  // An otherwise empty pool has everything but the reserve.
  const bool empty_pool = code == ReasonCode::larger_than_pool;
  return {.code = code,
          .persistent = job.view.persistent,
          .region = job.view.ephemeral,
          .capacity = empty_pool ? pool_.capacity() - pool_.reserve() : pool_.capacity(),
          .claimed = pool_.claimed(),
          .largest_free = pool_.largest_free(),
          .position = 0};
}

}  // namespace laneway::lanes
