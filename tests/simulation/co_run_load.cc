#include "tests/simulation/co_run_load.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <variant>

#include "policies/registry.h"

namespace laneway::simulation {

using namespace lanes;  // NOLINT: the vocabulary of this file

namespace {

SchedulerConfig config_of(uint32_t lanes) {
  SchedulerConfig config;
  config.capacity = gib(1);
  config.max_lanes = lanes;
  config.check_every = 1;
  return config;
}

}  // namespace

CoRunLoad::CoRunLoad(const std::string& policy, uint32_t lanes, double interference)
    : CoRunLoad(policy, config_of(lanes), interference) {}

CoRunLoad::CoRunLoad(const std::string& policy, const SchedulerConfig& config, double interference)
    : interference_(interference),
      scheduler_(std::make_unique<Scheduler>(config, policies::make_policy(policy).value())) {}

CoRunLoad CoRunLoad::measured(const std::string& policy, uint32_t first, double interference) {
  SchedulerConfig config = config_of(limits::kMaxLanes);
  config.lane_limit = {.measured = true, .first = first};
  return CoRunLoad(policy, config, interference);
}

double CoRunLoad::work(uint64_t job) const { return work_ns_.at(job - 1) / 1e9; }

double CoRunLoad::work() const {
  return std::accumulate(work_ns_.begin(), work_ns_.end(), 0.0) / 1e9;
}

void CoRunLoad::send(const Event& event) {
  const std::vector<Action> actions = scheduler_->handle(now_, event);
  for (const Action& action : actions) {
    if (const auto* place = std::get_if<PlaceImage>(&action)) send(ImagePlaced{place->job});
    if (const auto* grant = std::get_if<GrantTurn>(&action)) {
      const Turn& turn = grant->turn;
      Open open{.turn = turn, .begins = now_ + kTurnGap, .busy = {}};
      open.left_ns = static_cast<double>(job_of(open).iteration.ns());
      turns_[turn.lane] = open;
      Duration& longest = waits_[turn.job.value() - 1];
      longest = std::max(longest, open.begins - waits_since_[turn.job.value() - 1]);
    }
    if (const auto* recall = std::get_if<RecallTurn>(&action)) {
      const auto turn = turns_.find(recall->lane);
      if (turn != turns_.end() && turn->second.turn.id == recall->turn) {
        turn->second.recalled = true;
      }
    }
  }
}

void CoRunLoad::offer_all() {
  work_ns_.resize(jobs_.size());
  waits_.resize(jobs_.size());
  waits_since_.resize(jobs_.size(), now_);
  for (uint64_t id = 1; id <= jobs_.size(); ++id) {
    JobOffered offer;
    offer.job = JobId(id);
    offer.session = SessionId(id);
    offer.options.name = "job" + std::to_string(id);
    offer.options.job_class = jobs_[id - 1].job_class;
    offer.persistent = mib(1);
    offer.ephemeral = mib(1);
    send(offer);
    send(WorkReady{offer.job});
  }
}

double CoRunLoad::rate() const {
  double demand = 0;
  int neighbours = -1;
  for (const auto& [lane, turn] : turns_) {
    if (!computes(turn)) continue;
    demand += job_of(turn).demand;
    ++neighbours;
  }
  return 1 / (std::max(1.0, demand) * (1 + interference_ * std::max(neighbours, 0)));
}

TimePoint CoRunLoad::next_event() const {
  TimePoint next = scheduler_->next_wakeup();
  const double speed = rate();
  for (const auto& [lane, turn] : turns_) {
    const TimePoint ends =
        computes(turn) ? now_ + Duration(static_cast<int64_t>(std::ceil(turn.left_ns / speed)))
                       : turn.begins;
    next = std::min(next, ends);
  }
  return std::max(next, now_);
}

void CoRunLoad::pass_until(TimePoint time) {
  const double speed = rate();
  const Duration passed = time - now_;
  for (auto& [lane, turn] : turns_) {
    if (!computes(turn)) continue;
    turn.left_ns -= static_cast<double>(passed.ns()) * speed;
    turn.busy += passed;
    work_ns_[turn.turn.job.value() - 1] += static_cast<double>(passed.ns()) * speed;
  }
  now_ = time;
}

// Iterations that are done; turns end at their boundary.
void CoRunLoad::end_iterations() {
  std::vector<Open> ended;
  for (auto& [lane, turn] : turns_) {
    if (!computes(turn) || turn.left_ns > 0.5) continue;
    ++turn.done;
    turn.left_ns += static_cast<double>(job_of(turn).iteration.ns());
    const TurnBudget& budget = turn.turn.envelope.budget;
    const bool used_up = (budget.iterations > 0 && turn.done >= budget.iterations) ||
                         (budget.slice > Duration() && now_ - turn.begins >= budget.slice);
    if (turn.recalled || used_up) ended.push_back(turn);
  }
  for (const Open& turn : ended) {
    turns_.erase(turn.turn.lane);
    waits_since_[turn.turn.job.value() - 1] = now_;
    send(TurnEnded{.turn = turn.turn.id,
                   .end = TurnEnd::budget,
                   .iterations = turn.done,
                   .busy = turn.busy,
                   .more_ready = true,
                   .ephemeral = Bytes()});
  }
}

void CoRunLoad::run(Duration time) {
  if (work_ns_.empty()) offer_all();
  const TimePoint end = now_ + time;
  while (now_ < end) {
    pass_until(std::min(next_event(), end));
    if (scheduler_->next_wakeup() <= now_) send(TimerFired{});
    end_iterations();
  }
}

}  // namespace laneway::simulation
