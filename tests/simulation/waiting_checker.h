// WaitingChecker: the bound on waiting for a turn that policies/common_rules.h states, held from
// outside: a job that could run waits for at most R x age, plus the R + 1 turns that may be open or
// due before its own, each of them `longest_turn` at most; R is the largest number of others that
// had work in its lane while it waited. A turn in which a job did nothing ends no wait: it stood
// still meanwhile.
//
// What is no matter of a policy starts the clock anew: a job that cannot run (it is held, its image
// leaves), a lost worker, a core that takes over.
#pragma once

#include <map>
#include <string>

#include "base/time.h"
#include "tests/simulation/checker.h"

namespace laneway::simulation {

class WaitingChecker final : public Checker {
 public:
  // `longest_turn`: of a turn that does one iteration, with all that delays it.
  WaitingChecker(Duration age, Duration longest_turn) : age_(age), longest_turn_(longest_turn) {}

  std::string action(const Observed& seen, const lanes::Action& action) override;
  std::string settled(const Observed& seen, const lanes::Event& event) override;

 private:
  struct Wait {
    TimePoint since;
    int64_t rivals = 0;  // the most that there were
    uint64_t iterations = 0;
  };

  Duration age_;
  Duration longest_turn_;
  std::map<JobId, Wait> waits_;
  TimePoint before_;  // of the last event
};

}  // namespace laneway::simulation
