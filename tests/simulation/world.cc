#include "tests/simulation/world.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/memory_checker.h"
#include "tests/simulation/turn_checker.h"
#include "tests/simulation/world_state.h"

namespace laneway::simulation {

using namespace lanes;  // NOLINT: the vocabulary of this file

World::World(uint64_t seed, Kind kind, std::optional<Changed> lost)
    : random_(seed), seed_(seed), kind_(kind), lost_(lost) {
  SchedulerConfig config;
  capacity_ = 64 * (kind == Kind::exchange ? 100 : random_.between(40, 4000));
  config.capacity = Bytes(capacity_);
  config.reserve = Bytes(random_.chance(0.3) ? capacity_ / 16 : 0);
  config.max_lanes = static_cast<uint32_t>(random_.between(1, 8));
  config.keep_lanes = static_cast<uint32_t>(random_.between(1, 4));
  config.max_jobs = static_cast<uint32_t>(random_.between(5, 60));
  config.budget = {.iterations = static_cast<uint64_t>(random_.between(0, 4)),
                   .slice = microseconds(random_.between(0, 3) * 500)};
  if (config.budget.slice == Duration(0)) config.budget.iterations += 1;
  config.patience = milliseconds(random_.between(1, 5));
  config.check_every = 1;
  config.left_alone = microseconds(random_.between(0, 3000));
  config.idle_before_saving = microseconds(random_.between(0, 2000));
  if (random_.chance(0.6)) config.store = Bytes(random_.between(0, 2) * capacity_ + 64);
  if (random_.chance(0.3)) config.store = Bytes(capacity_ * 64);
  if (random_.chance(0.4)) config.spill = Bytes(random_.between(1, 3) * capacity_);
  if (kind == Kind::exchange) {
    config.store = Bytes(64 * random_.between(1, 130));
    config.spill = Bytes(random_.chance(0.3) ? 64 * random_.between(1, 60) : 0);
    config.reserve = Bytes();
  }
  if (random_.chance(0.5)) {
    config.lane_limit = {.measured = true,
                         .first = static_cast<uint32_t>(random_.between(1, 8)),
                         .after = microseconds(random_.between(100, 5000)),
                         .least = microseconds(random_.between(100, 3000)),
                         .again = microseconds(random_.between(500, 20000))};
  }
  max_delay_us_ = random_.between(0, 300);
  if (random_.chance(0.5)) reads_every_ = microseconds(random_.between(5, 400));
  worker_keeps_idle_turns_ = random_.chance(0.3);
  // Such a turn ends by its time.
  if (worker_keeps_idle_turns_) {
    config.budget.slice = std::max(config.budget.slice, Duration(microseconds(500)));
  }
  faults_ = random_.chance(0.7);
  // Nonsense answers otherwise each time.
  looks_again_ = seed_ % 8 < 4 && (kind_ == Kind::exchange || seed_ % 4 != 0);
  faults_end_ = TimePoint(milliseconds(random_.between(20, 400)).ns());
  config_ = config;
  policy_ = draw_policy();
  make_core();
  seen_ = std::make_unique<Observed>(capacity_, config.reserve.count(), config.alignment);
  seen_->store = config.store.count();
  seen_->spill = config.spill.count();
  one_context_ = random_.chance(0.6);
  checkers_.push_back(std::make_unique<MemoryChecker>());
  checkers_.push_back(std::make_unique<TurnChecker>(&keeps_apart_, &outcome_.counts["kept apart"]));
  checkers_.push_back(std::make_unique<OrderChecker>(draw_order(), one_context_, config.max_lanes,
                                                     config.max_jobs));
  slows_by_ = 1 + 1.5 * random_.unit();
  watch_waits();
  const int64_t contexts = one_context_ ? 1 : random_.between(2, 3);
  const int64_t jobs = random_.between(2, 40);
  for (int64_t i = 1; i <= jobs; ++i) {
    Client client;
    client.offer.job = JobId(static_cast<uint64_t>(i));
    client.offer.context_key = random_.below(static_cast<uint64_t>(contexts));
    clients_.emplace(client.offer.job, client);
  }
  plan_clients();
  if (kind == Kind::exchange) plan_exchange();
  if (faults_) plan_faults();
}

World::~World() = default;

void World::make_core() {
  scheduler_ = std::make_unique<Scheduler>(config_, make_policy());
  if (lost_) scheduler_->lose(*lost_);
  start_adviser();
}

void World::at(Duration from_now, std::function<void()> what) {
  queue_.push({now_ + from_now, ++happenings_, std::move(what)});
}

void World::broken(const std::string& what) {
  if (!outcome_.violation.empty()) return;
  outcome_.violation = "at " + std::to_string(now_.ns()) + " ns: " + what;
}

Duration World::delay() {
  const Duration least = microseconds(random_.between(0, max_delay_us_));
  if (reads_every_ == Duration()) return least;
  const int64_t then = (now_ + least).ns();
  const int64_t every = reads_every_.ns();
  return TimePoint((then + every - 1) / every * every) - now_;
}

void World::send(const Event& event) {
  sent_.push_back(event);
  if (reads_every_ == Duration()) handle_sent();
}

void World::handle_sent() {
  if (sent_.empty()) return;
  if (sent_.size() > 1) ++outcome_.counts["several events at once"];
  handle(std::exchange(sent_, {}));
}

void World::handle(const std::vector<Event>& events) {
  const std::vector<Action> actions = scheduler_->handle(now_, events);
  // The seed's own offers are refused at once or not at all, so Observed sees the events first.
  seen_->now = now_;
  for (const Event& event : events) seen_->apply(event);
  for (const Action& action : actions) {
    hash_.add(action);
    for (const auto& checker : checkers_) {
      const std::string violation = checker->action(*seen_, action);
      if (!violation.empty()) return broken(violation);
    }
    seen_->apply(action);
  }
  // A smaller pool counts from the moment at which the core says that it has let go.
  if (scheduler_->pool().capacity().count() == seen_->wanted_capacity) {
    seen_->capacity = seen_->wanted_capacity;
  }
  const uint32_t limit = scheduler_->lane_limit().lanes();
  const bool is_known = seen_->lane_limit > 0;
  outcome_.counts["lanes opened by measure"] += is_known && limit > seen_->lane_limit;
  outcome_.counts["lanes closed by measure"] += limit < seen_->lane_limit;
  outcome_.counts["steps in trials"] += scheduler_->lane_limit().trying();
  seen_->lane_limit = limit;
  for (const auto& checker : checkers_) {
    const std::string violation = checker->settled(*seen_, events.back());
    if (!violation.empty()) return broken(violation);
  }
  if (waiting_ != nullptr) {
    const std::string violation = waiting_->settled(*seen_, events.back());
    if (!violation.empty()) return broken(violation + "; policy " + policy_);
  }
  const std::vector<Action> more = looks_again_ ? look_again() : std::vector<Action>();
  for (const Action& action : actions) carry_out(action);
  for (const Action& action : more) carry_out(action);
}

// Nobody waits who could go on: every change that gives room or a turn was told by its owner. Ranks
// change all the time, and who leaves by them is asked for when memory has changed: a turn that
// comes from such a leaving was not forgotten.
std::vector<Action> World::look_again() {
  std::vector<Action> more = scheduler_->look_again();
  bool leaves = false;
  for (const Action& action : more) {
    hash_.add(action);
    seen_->apply(action);
    leaves = leaves || std::holds_alternative<EvictImage>(action);
    const auto* grant = std::get_if<GrantTurn>(&action);
    const auto* admit = std::get_if<AdmitJob>(&action);
    if (leaves || (grant == nullptr && admit == nullptr)) continue;
    const JobId job = grant != nullptr ? grant->turn.job : admit->job;
    broken("job " + std::to_string(job.value()) + " was forgotten until somebody looked again: " +
           (grant != nullptr ? "a turn" : "memory") + " was free; policy " + policy_);
  }
  return more;
}

void World::carry_out(const Action& action) {
  if (const auto* place_image = std::get_if<PlaceImage>(&action)) {
    place(*place_image);
  } else if (const auto* move_image = std::get_if<MoveImage>(&action)) {
    move(move_image->job);
  } else if (const auto* evict_image = std::get_if<EvictImage>(&action)) {
    evict(*evict_image);
  } else if (const auto* save_image = std::get_if<SaveImage>(&action)) {
    save(*save_image);
  } else if (const auto* drop = std::get_if<DropCopy>(&action)) {
    ++outcome_.counts["copies given up"];
    (void)clients_.at(drop->job).image.outdate();
  } else if (const auto* prefix = std::get_if<DropPrefix>(&action)) {
    ++outcome_.counts["prefixes given up"];
    ImageLife& image = clients_.at(prefix->job).image;
    if (image.state != ImageState::leaving)
      image.prefix = {};  // else what will stay was decided since
  } else if (const auto* keep = std::get_if<KeepLearnt>(&action)) {
    ++outcome_.counts["learnt"];
    clients_.at(keep->job).learnt = keep->learnt;
  } else if (const auto* news = std::get_if<TellPolicy>(&action)) {
    tell(*news);
  } else if (std::holds_alternative<ChangeLane>(action)) {
    ++outcome_.counts["changed lanes"];
  } else if (const auto* grant = std::get_if<GrantTurn>(&action)) {
    granted(grant->turn);
  } else if (const auto* recall = std::get_if<RecallTurn>(&action)) {
    ++outcome_.counts["recalled"];
    recalled(*recall);
  } else if (const auto* refuse = std::get_if<RefuseJob>(&action)) {
    ++outcome_.counts["refused"];
    gone(clients_.at(refuse->job));
  } else if (const auto* work = std::get_if<RefuseWork>(&action)) {
    refuse_work(clients_.at(work->job), work->reason.code == ReasonCode::no_way_back);
  } else if (const auto* queue = std::get_if<QueueJob>(&action)) {
    ++outcome_.counts[reason_code_name(queue->reason.code)];
  } else if (const auto* open = std::get_if<OpenRegion>(&action)) {
    last_region_ = std::max(last_region_, open->region);
  } else if (std::holds_alternative<ResizeRegion>(action)) {
    ++outcome_.counts["resized"];
  }
}

bool World::step() {
  const TimePoint wakeup = scheduler_->next_wakeup();
  if (queue_.empty() && wakeup == TimePoint::never()) return false;
  if (queue_.empty() || wakeup <= queue_.top().time) {
    now_ = std::max(now_, wakeup);
    ++outcome_.counts["timers"];
    send(TimerFired{});
    handle_sent();
    return true;
  }
  const std::function<void()> what = queue_.top().what;
  now_ = queue_.top().time;
  queue_.pop();
  what();
  if (queue_.empty() || queue_.top().time > now_) handle_sent();
  return true;
}

Outcome World::run() {
  constexpr uint64_t kMostSteps = 400'000;  // far more than any seed needs
  uint64_t steps = 0;
  while (outcome_.violation.empty()) {
    if (++steps > kMostSteps) broken("the world does not come to its end");
    if (!step() && !standstill()) break;
  }
  outcome_.action_hash = hash_.value();
  outcome_.counts["steps"] = steps;
  outcome_.counts["policy faults"] = scheduler_->policy_faults();
  if (!outcome_.violation.empty()) return outcome_;
  if (seen_->claimed() != seen_->reserve) broken("bytes are claimed though everybody is gone");
  const Snapshot end = scheduler_->snapshot();
  if (!end.jobs.empty() || !end.lanes.empty()) broken("the core keeps jobs or lanes for ever");
  return outcome_;
}

bool World::standstill() {
  if (seen_->jobs.empty()) return false;
  // Timers are done and nothing is under way. No job may be left, held ones included.
  std::string left;
  for (const JobStatus& job : scheduler_->snapshot().jobs) {
    left += "\n  job " + std::to_string(job.id.value()) + ", " + job_state_name(job.state) + ", " +
            reason_code_name(job.reason.code) + ": image " +
            std::to_string(job.persistent.count()) + ", region " +
            std::to_string(job.ephemeral.count()) + ", outside " +
            std::to_string((job.store_bytes + job.spill_bytes).count()) +
            (job.pinned ? ", pinned" : "") + (job.clean ? ", clean" : "");
  }
  const PoolMap& pool = scheduler_->pool();
  broken("everything stands still and not all are done, by " + policy_ + ", with " +
         std::to_string(config_.max_lanes) + " lanes, in a pool of " +
         std::to_string(pool.capacity().count()) + " with " +
         std::to_string(pool.claimed().count()) + " claimed, to be " +
         std::to_string(scheduler_->snapshot().wanted_capacity.count()) + ":" + left);
  return true;
}

}  // namespace laneway::simulation
