// LoadWitness: follows a Scheduler under load from outside and says whether the load was what it is
// meant to be: turns were granted, to many jobs, each out of about so many that were ready, and the
// policy's order held at every one. Keeps its own books from the events alone; of the core's it
// reads who is ready. Too slow to stand beside a clock: a bench runs the load once with it and then
// times the same load without, which must grant the same turns.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "policies/moving_mean.h"
#include "policies/view.h"

namespace laneway::bench {

enum class Order : uint8_t { shortest_first, earliest_first };

class LoadWitness {
 public:
  explicit LoadWitness(Order order) : order_(order) {}

  // After the core handled `event`; `view` is the core's. False when the order was broken: see
  // error().
  bool saw(const lanes::Event& event, const std::vector<lanes::Action>& actions,
           const policies::View& view);
  const std::string& error() const { return error_; }

  struct Counts {
    uint64_t events = 0;
    uint64_t turns = 0;
    uint64_t choices = 0;   // turns that more than one job was ready for
    uint64_t switches = 0;  // turns of another job than the lane's last
    uint64_t arrivals = 0;
    uint64_t departures = 0;
    uint64_t evictions = 0;   // images that left the pool
    uint64_t returns = 0;     // … and came back
    uint64_t candidates = 0;  // over all turns
    uint64_t distinct_jobs = 0;
    uint64_t lanes = 0;
    double mean_candidates() const {
      return turns == 0 ? 0 : static_cast<double>(candidates) / static_cast<double>(turns);
    }
  };
  Counts counts() const;
  // Forgets what was counted, so that the start of a load can be left out; not who the jobs are.
  void start_counting();

 private:
  struct Known {
    uint64_t arrival = 0;
    uint64_t total = 0;
    uint64_t iterations = 0;
    int64_t busy_ns = 0;
    uint64_t turns = 0;
    policies::MovingMean lately;
    int64_t estimate_ns = 0;
    bool had_turn = false;
  };

  void learn(const lanes::Event& event);
  bool check(const lanes::Turn& turn, const policies::View& view);
  // Whether `a` goes before `b` by the order.
  bool before(const Known& a, const Known& b) const;
  static double remaining_ns(const Known& job);
  static bool is_newcomer(const Known& job) { return job.iterations < 2 && job.turns < 4; }

  Order order_;
  Counts counts_;
  uint64_t forgotten_arrivals_ = 0;
  std::map<JobId, Known> jobs_;
  std::map<LaneId, JobId> last_in_lane_;
  std::map<TurnId, JobId> open_;
  std::set<JobId> away_;
  std::string error_;
};

}  // namespace laneway::bench
