// TurnChecker: one open turn a lane, only for jobs that are in the pool, have work and fit; the
// envelope is the lane's region; jobs of different numeric contexts never run together; a job that
// ended gets no turn and loses the one it has. And nothing is forgotten: whenever the core has
// settled, no idle lane has a job that could run, no rival waits behind a turn that nobody recalls
// or bounds, and no job is held for which there is room.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/simulation/checker.h"

namespace laneway::simulation {

class TurnChecker final : public Checker {
 public:
  // `keeps_apart`: whether lanes may have to take turns, in trials; `seen_apart` counts how
  // often one waits so. Both must outlive the object.
  TurnChecker(const bool* keeps_apart, uint64_t* seen_apart)
      : keeps_apart_(keeps_apart), seen_apart_(seen_apart) {}

  std::string action(const Observed& seen, const lanes::Action& action) override;
  std::string settled(const Observed& seen, const lanes::Event& event) override;

 private:
  std::string check_grant(const Observed& seen, const lanes::Turn& turn);
  static std::string check_change(const Observed& seen, const lanes::ChangeLane& change);
  std::string check_held(const Observed& seen, const SeenJob& job) const;
  std::string check_idle(const Observed& seen, const SeenJob& job) const;

  static bool has_nothing_to_run(const Observed& seen, LaneId lane);
  // Whether there is a lane with nothing to run in which the job has room.
  static bool could_run_elsewhere(const Observed& seen, const SeenJob& job);
  // Whether a turn is open that will end.
  bool ends_soon(const Observed& seen) const;

  const bool* keeps_apart_;
  uint64_t* seen_apart_;
  std::map<LaneId, bool> bounded_;  // of the lane's last turn
};

}  // namespace laneway::simulation
