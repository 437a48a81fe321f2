#include "tests/simulation/lane_load.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "policies/registry.h"

namespace laneway::simulation {

using namespace lanes;  // NOLINT: the vocabulary of this file

struct LaneLoad::Client {
  JobId id;
  LoadJob job;
  bool begun = false;
  uint64_t submitted = 0;
  uint64_t queued = 0;
  bool waits = false;  // has work, none of which runs
  TimePoint waits_since;
  LoadResult result;
};

struct LaneLoad::Open {
  Turn turn;
  TimePoint granted;
  bool recalled = false;
  uint64_t done = 0;
  Duration busy;
};

namespace {

SchedulerConfig one_lane() {
  SchedulerConfig config;
  config.capacity = gib(1);
  config.max_lanes = 1;
  return config;
}

}  // namespace

LaneLoad::LaneLoad(const std::string& policy)
    : scheduler_(std::make_unique<Scheduler>(one_lane(), policies::make_policy(policy).value())) {}

LaneLoad::~LaneLoad() = default;

void LaneLoad::add(const LoadJob& job) {
  const JobId id(clients_.size() + 1);
  Client client;
  client.id = id;
  client.job = job;
  clients_.emplace(id, client);
  submissions_.emplace(job.begins, id);
}

const LoadResult& LaneLoad::result(uint64_t job) const { return clients_.at(JobId(job)).result; }

void LaneLoad::send(const Event& event) {
  const std::vector<Action> actions = scheduler_->handle(now_, event);
  for (const Action& action : actions) {
    if (const auto* place = std::get_if<PlaceImage>(&action)) send(ImagePlaced{place->job});
    if (const auto* grant = std::get_if<GrantTurn>(&action)) {
      LW_CHECK(turn_ == nullptr, "a lane has one turn");
      now_ = now_ + kTurnGap;
      turn_ = std::make_unique<Open>(Open{.turn = grant->turn, .granted = now_, .busy = {}});
    }
    if (const auto* recall = std::get_if<RecallTurn>(&action)) {
      if (turn_ != nullptr && turn_->turn.id == recall->turn) turn_->recalled = true;
    }
  }
}

void LaneLoad::begin(uint64_t id) {
  Client& client = clients_.at(JobId(id));
  client.begun = true;
  JobOffered offer;
  offer.job = client.id;
  offer.session = SessionId(id);
  offer.options = client.job.options;
  offer.options.name = "job" + std::to_string(id);
  offer.persistent = mib(1);
  offer.ephemeral = mib(1);
  send(offer);
  for (uint64_t i = 0; i < client.job.in_flight; ++i) submit(client);
}

void LaneLoad::submit(Client& client) {
  if (client.submitted >= client.job.total) return;
  ++client.submitted;
  if (++client.queued > 1) return;
  if (turn_ != nullptr && turn_->turn.job == client.id) return;  // the worker sees it
  client.waits = true;
  client.waits_since = now_;
  send(WorkReady{client.id});
}

TimePoint LaneLoad::next_event() const {
  const TimePoint submission =
      submissions_.empty() ? TimePoint::never() : submissions_.begin()->first;
  return std::min(submission, scheduler_->next_wakeup());
}

void LaneLoad::pass_until(TimePoint time) {
  while (next_event() <= time) {
    now_ = std::max(now_, next_event());
    if (scheduler_->next_wakeup() <= now_) {
      send(TimerFired{});
      continue;
    }
    Client& client = clients_.at(submissions_.begin()->second);
    submissions_.erase(submissions_.begin());
    client.begun ? submit(client) : begin(client.id.value());
  }
  now_ = std::max(now_, time);
}

bool LaneLoad::is_over() const {
  const TurnBudget& budget = turn_->turn.envelope.budget;
  if (turn_->recalled) return true;
  if (budget.iterations > 0 && turn_->done >= budget.iterations) return true;
  if (budget.slice > Duration() && now_ - turn_->granted >= budget.slice) return true;
  return budget.is_bound() && clients_.at(turn_->turn.job).queued == 0;
}

void LaneLoad::end_turn() {
  const Open ended = *std::exchange(turn_, nullptr);
  Client& client = clients_.at(ended.turn.job);
  const bool more = client.queued > 0;
  if (more && !client.waits) {
    client.waits = true;
    client.waits_since = now_;
  }
  send(TurnEnded{.turn = ended.turn.id,
                 .end = more ? TurnEnd::budget : TurnEnd::idle,
                 .iterations = ended.done,
                 .busy = ended.busy,
                 .more_ready = more,
                 .ephemeral = Bytes()});
}

void LaneLoad::run_one() {
  Client& client = clients_.at(turn_->turn.job);
  LoadResult& result = client.result;
  if (client.waits) result.longest_wait = std::max(result.longest_wait, now_ - client.waits_since);
  client.waits = false;
  const Duration took = client.job.iteration;
  pass_until(now_ + took);
  --client.queued;
  ++turn_->done;
  turn_->busy += took;
  ++result.iterations;
  result.device_time += took;
  if (result.iterations < client.job.total) {
    submissions_.emplace(now_ + client.job.think, client.id);
    return;
  }
  result.done = now_;
  end_turn();
  send(JobEnded{client.id});
}

void LaneLoad::run(TimePoint until) {
  while (now_ < until) {
    pass_until(now_);
    if (turn_ != nullptr && is_over()) {
      end_turn();
    } else if (turn_ != nullptr && clients_.at(turn_->turn.job).queued > 0) {
      run_one();
    } else {
      const TimePoint next = next_event();
      if (next == TimePoint::never()) return;
      pass_until(next);
    }
  }
  for (auto& [id, client] : clients_) {
    LoadResult& result = client.result;
    if (client.waits)
      result.longest_wait = std::max(result.longest_wait, now_ - client.waits_since);
  }
}

}  // namespace laneway::simulation
