#include "tests/simulation/waiting_checker.h"

#include <algorithm>

namespace laneway::simulation {

using namespace lanes;  // NOLINT: the vocabulary of this file

std::string WaitingChecker::action(const Observed& /*seen*/, const Action& /*action*/) {
  return "";
}

std::string WaitingChecker::settled(const Observed& seen, const Event& event) {
  if (!seen.worker_up || std::holds_alternative<WorkerReported>(event)) {
    waits_.clear();
    before_ = seen.now;
    return "";
  }
  std::map<LaneId, int64_t> with_work;
  for (const auto& [id, job] : seen.jobs) {
    if (job.turn.valid() || seen.eligible(job)) ++with_work[job.lane];
  }
  std::map<JobId, Wait> now;
  std::string broken;
  for (const auto& [id, job] : seen.jobs) {
    const bool waits = seen.eligible(job);
    if (!waits && !job.turn.valid()) continue;
    const auto known = waits_.find(id);
    Wait wait{.since = seen.now, .rivals = 0, .iterations = job.iterations};
    if (known != waits_.end() && known->second.iterations == job.iterations) wait = known->second;
    if (!waits) wait.since = wait.since + (seen.now - before_);
    wait.rivals = std::max(wait.rivals, with_work.at(job.lane) - 1);
    now[id] = wait;
    const Duration bound = age_ * wait.rivals + longest_turn_ * (wait.rivals + 1);
    if (waits && seen.now - wait.since > bound) {
      broken = "job " + std::to_string(id.value()) + " has waited for " +
               std::to_string((seen.now - wait.since).ns()) + " ns beside " +
               std::to_string(wait.rivals) + " others; the bound is " + std::to_string(bound.ns());
    }
  }
  waits_ = std::move(now);
  before_ = seen.now;
  return broken;
}

}  // namespace laneway::simulation
