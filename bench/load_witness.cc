#include "bench/load_witness.h"

#include <variant>

namespace laneway::bench {

bool LoadWitness::saw(const lanes::Event& event, const std::vector<lanes::Action>& actions,
                      const policies::View& view) {
  ++counts_.events;
  learn(event);
  bool right = true;
  for (const lanes::Action& action : actions) {
    if (const auto* grant = std::get_if<lanes::GrantTurn>(&action)) {
      right = check(grant->turn, view) && right;
    }
  }
  return right;
}

void LoadWitness::learn(const lanes::Event& event) {
  if (const auto* offered = std::get_if<lanes::JobOffered>(&event)) {
    ++counts_.arrivals;
    Known& job = jobs_[offered->job];
    job.arrival = counts_.arrivals + forgotten_arrivals_;
    job.total = offered->options.total_iterations;
    job.estimate_ns = offered->iteration_estimate.ns();
  } else if (const auto* ended = std::get_if<lanes::TurnEnded>(&event)) {
    Known& job = jobs_.at(open_.at(ended->turn));
    open_.erase(ended->turn);
    job.iterations += ended->iterations;
    job.busy_ns += ended->busy.ns();
    job.lately.add(ended->iterations, ended->busy);
    ++job.turns;
  } else if (std::holds_alternative<lanes::JobEnded>(event)) {
    ++counts_.departures;
  } else if (const auto* left = std::get_if<lanes::ImageLeft>(&event)) {
    ++counts_.evictions;
    away_.insert(left->job);
  } else if (const auto* placed = std::get_if<lanes::ImagePlaced>(&event)) {
    counts_.returns += away_.erase(placed->job);
  }
}

bool LoadWitness::check(const lanes::Turn& turn, const policies::View& view) {
  const policies::LaneView& lane = *view.lane(turn.lane);
  ++counts_.turns;
  counts_.choices += lane.ready.empty() ? 0 : 1;
  counts_.candidates += lane.ready.size() + 1;
  JobId& last = last_in_lane_[turn.lane];
  counts_.switches += last == turn.job ? 0 : 1;
  last = turn.job;
  open_[turn.id] = turn.job;
  Known& chosen = jobs_.at(turn.job);
  chosen.had_turn = true;
  for (const policies::JobView* other : lane.ready) {
    if (!before(jobs_.at(other->id), chosen)) continue;
    error_ = "lane " + std::to_string(turn.lane.value()) + " granted job " +
             std::to_string(turn.job.value()) + " a turn, and job " +
             std::to_string(other->id.value()) + " goes before it";
    return false;
  }
  return true;
}

bool LoadWitness::before(const Known& a, const Known& b) const {
  if (order_ == Order::shortest_first) {
    if (is_newcomer(a) != is_newcomer(b)) return is_newcomer(a);
    if (is_newcomer(a)) return a.arrival < b.arrival;
    const double left_a = remaining_ns(a);
    const double left_b = remaining_ns(b);
    if (left_a != left_b) return left_a < left_b;
  }
  return a.arrival < b.arrival;
}

// Whole nanoseconds, as the core counts; exact, for all numbers here stay below 2^53.
double LoadWitness::remaining_ns(const Known& job) {
  if (job.total <= job.iterations) return static_cast<double>(job.busy_ns);
  const int64_t mean = job.iterations == 0 ? job.estimate_ns : job.lately.mean().ns();
  return static_cast<double>(mean) * static_cast<double>(job.total - job.iterations);
}

LoadWitness::Counts LoadWitness::counts() const {
  Counts all = counts_;
  for (const auto& [id, job] : jobs_) all.distinct_jobs += job.had_turn ? 1 : 0;
  all.lanes = last_in_lane_.size();
  return all;
}

void LoadWitness::start_counting() {
  forgotten_arrivals_ += counts_.arrivals;
  counts_ = {};
  last_in_lane_.clear();
  for (auto& [id, job] : jobs_) job.had_turn = false;
}

}  // namespace laneway::bench
