#include "simulator/simulator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <variant>

#include "base/check.h"
#include "base/number_text.h"
#include "base/random.h"
#include "policies/registry.h"

namespace laneway::simulator {

using namespace lanes;  // NOLINT: the vocabulary of this file

namespace {

// Far more than one instant can need, with thousands of jobs: each answer leads to others.
constexpr uint64_t kMostPasses = 1'000'000;

size_t index_of(JobId id) { return id.value() - 1; }

}  // namespace

Counts& Counts::operator+=(const Counts& more) {
  events += more.events;
  turns += more.turns;
  evictions += more.evictions;
  preemptions += more.preemptions;
  moved_in += more.moved_in;
  moved_out += more.moved_out;
  return *this;
}

Simulator::Simulator(SimulatorConfig config)
    : config_(std::move(config)),
      core_(config_.core, policies::make_policy(config_.policy).value()),
      lanes_(config_.core.max_lanes),
      images_(config_.copies, events_) {}

void Simulator::add(const SimJob& job) {
  LW_CHECK(!started_, "jobs are added before anything runs");
  LW_CHECK(job.iteration > Duration() && job.iterations > 0, "a job has iterations");
  clients_.emplace_back(JobId(clients_.size() + 1), job);
}

void Simulator::set_adviser(Adviser adviser) {
  LW_CHECK(!started_, "an adviser is there before anything runs");
  adviser_.emplace(std::move(adviser));
}

void Simulator::start() {
  if (std::exchange(started_, true)) return;
  if (adviser_) events_.emplace_back(AdviserChanged{AdviserNews::came});
  images_.resize(clients_.size());
  arrivals_.resize(clients_.size());
  std::iota(arrivals_.begin(), arrivals_.end(), size_t{0});
  std::stable_sort(arrivals_.begin(), arrivals_.end(), [this](size_t a, size_t b) {
    return clients_[a].job().submit < clients_[b].job().submit;
  });
}

TimePoint Simulator::next() const {
  TimePoint next = std::min(core_.next_wakeup(), images_.next());
  for (const Lane& lane : lanes_) next = std::min(next, lane.due);
  if (arrived_ < arrivals_.size()) next = std::min(next, offered_at(arrivals_[arrived_]));
  if (!submissions_.empty()) next = std::min(next, submissions_.top().at);
  if (adviser_) next = std::min(next, adviser_->wakes_at());
  return events_.empty() ? std::max(next, now_) : now_;
}

Status Simulator::run() {
  start();
  while (over_ < clients_.size()) {
    const TimePoint time = next();
    if (time == TimePoint::never()) {
      const auto left = std::find_if(clients_.begin(), clients_.end(),
                                     [](const Client& client) { return !client.is_over(); });
      return Error{ErrorCode::internal, "at " + seconds_text(now_ - TimePoint()) +
                                            " s nothing is left to happen under " + config_.policy +
                                            ", and " + std::to_string(clients_.size() - over_) +
                                            " jobs are not done, first job " +
                                            left->job().options.name};
    }
    now_ = time;
    if (Status status = pass_instant(); !status) return status;
  }
  return {};
}

Status Simulator::run_until(TimePoint time) {
  start();
  while (next() <= time) {
    now_ = next();
    if (Status status = pass_instant(); !status) return status;
  }
  now_ = std::max(now_, time);
  for (Lane& lane : lanes_) {
    if (lane.turn != nullptr) advance(lane);
  }
  return {};
}

Status Simulator::pass_instant() {
  for (uint64_t pass = 0; next() <= now_; ++pass) {
    if (pass == kMostPasses) {
      return Error{ErrorCode::internal,
                   "at " + seconds_text(now_ - TimePoint()) + " s " + config_.policy +
                       " finds no end: jobs give way to each other and none of them computes"};
    }
    collect();
    if (!events_.empty()) {
      handled_.swap(events_);
      events_.clear();
      actions_ = core_.handle(now_, handled_);
      counts_.events += handled_.size();
      if (config_.observer) config_.observer(now_, handled_, actions_);
      carry_out();
      Status advised = adviser_ ? adviser_->advise(now_, actions_, events_) : Status();
      if (!advised) return advised;
    }
    if (std::exchange(speeds_changed_, false)) find_speeds();
  }
  note_use();
  return {};
}

void Simulator::note_use() {
  uint32_t busy = 0;
  for (const Lane& lane : lanes_) busy += lane.turn != nullptr && lane.turn->is_working() ? 1 : 0;
  timeline_.set(now_, busy, core_.pool().claimed());
}

void Simulator::collect() {
  for (Lane& lane : lanes_) {
    if (lane.due > now_) continue;
    settle(lane);
    speeds_changed_ = true;
  }
  images_.finish(now_);
  offer_who_comes();
  take_submissions();
  if (adviser_ && adviser_->wakes_at() <= now_) {
    adviser_->forget_wake();
    events_.emplace_back(AdviserChanged{AdviserNews::asks});
  }
  if (core_.next_wakeup() <= now_) events_.emplace_back(TimerFired{});
}

void Simulator::offer_who_comes() {
  while (arrived_ < arrivals_.size() && offered_at(arrivals_[arrived_]) <= now_) {
    Client& client = clients_[arrivals_[arrived_++]];
    events_.emplace_back(client.offer());
    client.begin();
    client.wait(now_);
    events_.emplace_back(WorkReady{client.id()});
  }
}

void Simulator::take_submissions() {
  while (!submissions_.empty() && submissions_.top().at <= now_) {
    Client& client = clients_[submissions_.top().job];
    submissions_.pop();
    const bool had_work = client.queued() > 0;
    client.submit(1);
    if (had_work || client.queued() == 0) continue;
    if (!client.turn.valid()) {
      client.wait(now_);
      events_.emplace_back(WorkReady{client.id()});
      continue;
    }
    // Its turn is open, and the worker sees the work without the core.
    settle(lanes_[client.lane.value() - 1]);
  }
}

void Simulator::carry_out() {
  const auto one = [this](const auto& asked) {
    if constexpr (requires { images_.carry_out(now_, asked); }) {
      images_.carry_out(now_, asked);
    } else if constexpr (requires { images_.carry_out(asked); }) {
      images_.carry_out(asked);
    } else if constexpr (requires { this->carry_out(asked); }) {
      carry_out(asked);
    }
  };
  for (const Action& action : actions_) std::visit(one, action);
}

void Simulator::carry_out(const AdmitJob& admit) {
  JobResult& result = clients_[index_of(admit.job)].result;
  result.admitted = std::min(result.admitted, now_);
}

void Simulator::carry_out(const RefuseJob& refuse) {
  Client& client = clients_[index_of(refuse.job)];
  client.result.refused = true;
  client.result.reason = reason_text(refuse.reason);
  client.result.ended = now_;
  ++over_;
}

void Simulator::carry_out(const GrantTurn& grant) {
  Lane& lane = lanes_[grant.turn.lane.value() - 1];
  LW_CHECK(lane.turn == nullptr, "a lane has one turn");
  Client& client = clients_[index_of(grant.turn.job)];
  if (lane.left_work && lane.job != index_of(grant.turn.job)) {
    ++clients_[lane.job].result.preemptions;
    ++counts_.preemptions;
  }
  ++counts_.turns;
  lane.turn =
      std::make_unique<RunningTurn>(grant.turn, iteration_of_turn(client), now_ + config_.turn_gap);
  lane.job = index_of(grant.turn.job);
  lane.left_work = false;
  client.turn = grant.turn.id;
  client.lane = grant.turn.lane;
  settle(lane);
}

Duration Simulator::iteration_of_turn(Client& client) const {
  const Duration mean = client.job().iteration;
  const uint64_t turn = ++client.turns;
  if (config_.jitter <= 0) return mean;
  const uint64_t of_job = Random(Random(config_.seed).next() ^ client.id().value()).next();
  const double chance = 2 * Random(of_job ^ turn).unit() - 1;
  const double drawn = static_cast<double>(mean.ns()) * (1 + config_.jitter * chance);
  return Duration(std::max<int64_t>(std::llround(drawn), 1));
}

void Simulator::carry_out(const RecallTurn& recall) {
  Lane& lane = lanes_[recall.lane.value() - 1];
  if (lane.turn == nullptr || lane.turn->turn().id != recall.turn) return;
  advance(lane);
  lane.turn->recall();
  settle(lane);
}

// Iterations that ended are their client's, which submits others; the last one ends the job.
void Simulator::advance(Lane& lane) {
  Client& client = clients_[lane.job];
  const uint64_t ended = lane.turn->advance(now_);
  if (ended == 0) return;
  for (uint64_t more = client.submissions_after(ended); more > 0; --more) {
    submissions_.push({now_ + client.job().gap, ++submission_numbers_, lane.job});
  }
  client.complete(ended);
}

void Simulator::settle(Lane& lane) {
  advance(lane);
  Client& client = clients_[lane.job];
  const bool works = client.queued() > 0;
  if (lane.turn->is_over(now_, client.queued())) {
    end_turn(lane);
  } else {
    if (works != lane.turn->is_working()) {
      lane.turn->set_working(now_, works);
      speeds_changed_ = true;
      if (works) {
        const TimePoint begins = std::max(now_, lane.turn->begins());
        client.end_wait(begins);
        client.result.begun = std::min(client.result.begun, begins);
        images_.written(now_, client.id());
      }
    }
    find_due(lane);
  }
  if (client.is_done() && !client.is_over()) job_done(client);
}

void Simulator::end_turn(Lane& lane) {
  Client& client = clients_[lane.job];
  const bool more = client.queued() > 0;
  events_.emplace_back(lane.turn->end(now_, more, client.job().ephemeral));
  client.result.busy += lane.turn->busy();
  client.turn = {};
  lane.left_work = more;
  lane.turn.reset();
  lane.due = TimePoint::never();
  speeds_changed_ = true;
  if (more) client.wait(now_);
}

void Simulator::job_done(Client& client) {
  client.result.ended = now_;
  ++over_;
  events_.emplace_back(JobEnded{client.id()});
}

void Simulator::find_due(Lane& lane) {
  const Client& client = clients_[lane.job];
  lane.due = lane.turn->due(client.queued(), client.job().gap > Duration());
  // Until its first iteration begins it slows nobody down.
  if (config_.speeds && lane.turn->begins() > now_) {
    lane.due = std::min(lane.due, lane.turn->begins());
  }
}

void Simulator::find_speeds() {
  if (!config_.speeds) return;
  std::vector<Lane*> computing;
  std::vector<size_t> jobs;
  for (Lane& lane : lanes_) {
    if (lane.turn == nullptr) continue;
    advance(lane);
    if (!lane.turn->is_working() || lane.turn->begins() > now_) continue;
    computing.push_back(&lane);
    jobs.push_back(lane.job);
  }
  std::vector<double> speeds(jobs.size(), 1);
  config_.speeds(jobs, speeds);
  for (size_t i = 0; i < computing.size(); ++i) {
    LW_CHECK(speeds[i] > 0, "a job that computes gets on");
    computing[i]->turn->set_speed(speeds[i]);
    find_due(*computing[i]);
  }
}

JobResult Simulator::result(size_t job) const {
  const Client& client = clients_.at(job);
  JobResult result = client.result;
  result.work = client.job().iteration * static_cast<int64_t>(result.iterations);
  result.evictions = started_ ? images_.evictions(client.id()) : 0;
  result.longest_wait = client.longest_wait(now_);
  if (client.turn.valid()) {
    const RunningTurn& turn = *lanes_[client.lane.value() - 1].turn;
    result.busy += turn.busy();
    result.work += turn.part();
  }
  return result;
}

Counts Simulator::counts() const {
  Counts counts = counts_;
  counts.evictions = images_.evictions();
  counts.moved_in = images_.moved_in();
  counts.moved_out = images_.moved_out();
  return counts;
}

size_t Simulator::open_turns() const {
  const auto open = [](const Lane& lane) { return lane.turn != nullptr; };
  return static_cast<size_t>(std::count_if(lanes_.begin(), lanes_.end(), open));
}

}  // namespace laneway::simulator
