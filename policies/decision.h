// What a policy is asked and what it answers, as plain data. An answer is a wish: the core checks
// it, and refuses what breaks a rule.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <tuple>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "policies/turn_budget.h"
#include "policies/view.h"

namespace laneway::policies {

// Which waiting job is admitted next, and where.
struct AdmitDecision {
  JobId job;               // none: nobody is admitted now
  LaneId lane = LaneId();  // this lane; none: a new one
  bool may_share =
      true;  // with no lane named: an existing lane is fine where a new one finds no room
  // It has waited for too long: it gets in although others go before it, and stays for a while.
  bool overdue = false;
  // When the answer may be another one though nothing has happened.
  TimePoint again = TimePoint::never();
};

// Which job of a lane gets the next turn; or, while a turn is open, whether it goes on now that a
// rival is ready.
struct PickQuestion {
  const LaneView& lane;
  // The jobs to choose from, at least one, by arrival: the lane's ready jobs, or those of them
  // whose numeric context may run now; and `running`. Or jobs that wait in other lanes and could
  // come into this one.
  std::span<const JobView* const> candidates;
  const JobView* running = nullptr;   // whose turn is open; null: the lane is idle
  Duration running_for = Duration();  // since that turn was granted
};

// The job whose turn it is: the running one goes on, another one waits for the next iteration
// boundary. `budget` bounds its turn while others wait for the lane (the core has a longest one);
// one without a bound leaves that to the core. While nobody waits no turn has a bound.
struct PickDecision {
  JobId job;
  TurnBudget budget = {};
};

// Where a job that is in stands in the one order over all lanes in which jobs with work are meant
// to have turns: the lowest first, then by arrival.
struct TurnRank {
  bool best_effort = false;  // CommonRules says so …
  int64_t less_urgent = 0;   // … and that: larger for one that others may interrupt
  int64_t value = 0;         // of the policy …
  int64_t tie = 0;           // … between equal ones
  auto operator<=>(const TurnRank& other) const {
    return std::tie(best_effort, less_urgent, value, tie) <=>
           std::tie(other.best_effort, other.less_urgent, other.value, other.tie);
  }
  bool operator==(const TurnRank& other) const { return (*this <=> other) == 0; }
};

// A job whose image may leave the pool.
struct EvictCandidate {
  const JobView* job = nullptr;
  bool idle = false;   // nothing of it runs or waits to
  bool clean = false;  // a copy lies outside already: to leave costs no transfer
};

// Whose image leaves the pool so that `wants` gets in, or its lane can grow. Asked again, with the
// rest, until there is room; nobody leaves when there would be none in the end.
struct EvictQuestion {
  const JobView& wants;
  std::span<const EvictCandidate> candidates;  // at least one, by arrival
  bool overdue = false;                        // as AdmitDecision's
};

// One of the candidates; or none: nobody (else) leaves for this job, as far as is known before
// `again`.
struct EvictDecision {
  JobId job;
  TimePoint again = TimePoint::never();
};

}  // namespace laneway::policies
