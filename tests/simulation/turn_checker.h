// TurnChecker: one open turn a lane, only for jobs that are in the pool, have work and fit; the
// envelope is the lane's region; jobs of different numeric contexts never run together; a job that
// ended gets no turn and loses the one it has. And nothing is forgotten: whenever the core has
// settled, no idle lane has a job that could run, no rival waits behind a turn that nobody recalls
// or bounds, and no job is held for which there is room.
#pragma once

#include <map>
#include <string>

#include "tests/simulation/checker.h"

namespace laneway::simulation {

class TurnChecker final : public Checker {
 public:
  std::string action(const Observed& seen, const lanes::Action& action) override;
  std::string settled(const Observed& seen, const lanes::Event& event) override;

 private:
  std::string check_grant(const Observed& seen, const lanes::Turn& turn);
  std::string check_held(const Observed& seen, const SeenJob& job) const;
  std::string check_idle(const Observed& seen, const SeenJob& job) const;

  std::map<LaneId, bool> bounded_;  // of the lane's last turn
};

}  // namespace laneway::simulation
