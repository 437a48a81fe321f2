#include "tests/simulation/turn_checker.h"

#include <algorithm>

namespace laneway::simulation {

using namespace lanes;  // NOLINT: the vocabulary of this file

std::string TurnChecker::action(const Observed& seen, const Action& action) {
  if (const auto* grant = std::get_if<GrantTurn>(&action)) return check_grant(seen, grant->turn);
  if (const auto* change = std::get_if<ChangeLane>(&action)) return check_change(seen, *change);
  if (const auto* recall = std::get_if<RecallTurn>(&action)) {
    const auto turn = seen.turns.find(recall->turn);
    if (turn == seen.turns.end()) return "a turn is recalled that is not open";
    if (turn->second.lane != recall->lane) return "a turn is recalled in another lane";
    // Again only because a more urgent job came.
    const SeenLane& lane = seen.lanes.at(recall->lane);
    if (lane.recalled && (lane.hurried || recall->latest == kWhenever)) {
      return "a turn is recalled twice";
    }
  }
  return "";
}

std::string TurnChecker::check_change(const Observed& seen, const ChangeLane& change) {
  const auto job = seen.jobs.find(change.job);
  if (job == seen.jobs.end() || !job->second.lane.valid()) return "a job without a lane changes it";
  if (job->second.turn.valid()) return "a job changes its lane while its turn is open";
  if (job->second.lane == change.lane) return "a job changes to the lane in which it is";
  if (seen.lanes.count(change.lane) == 0) return "a job changes to a lane that does not exist";
  return "";
}

std::string TurnChecker::check_grant(const Observed& seen, const Turn& turn) {
  if (!seen.worker_up) return "a turn without a worker";
  const auto lane = seen.lanes.find(turn.lane);
  if (lane == seen.lanes.end()) return "a turn in a lane that does not exist";
  if (lane->second.running.valid()) return "two open turns in a lane";
  const auto job = seen.jobs.find(turn.job);
  if (job == seen.jobs.end()) return "a turn for a job that does not exist";
  if (job->second.lane != turn.lane) return "a turn in another job's lane";
  if (!seen.eligible(job->second)) return "a turn for a job that can't run";
  const Range region = seen.regions.at(lane->second.region);
  if (turn.envelope.region != lane->second.region || turn.envelope.base.count() != region.offset ||
      turn.envelope.ceiling.count() != region.size) {
    return "a turn whose envelope is not its lane's region";
  }
  LaneSet lanes = 0;
  for (const auto& [id, open] : seen.turns) {
    lanes |= set_of(open.lane);
    if (seen.jobs.at(open.job).offer.context_key != job->second.offer.context_key) {
      return "turns of two numeric contexts at the same time";
    }
  }
  if (((turn.envelope.interrupts | turn.envelope.yields_to) & ~lanes) != 0) {
    return "a turn interrupts, or yields to, one that is not open";
  }
  bounded_[turn.lane] =
      turn.envelope.budget.iterations > 0 || turn.envelope.budget.slice > Duration(0);
  return "";
}

std::string TurnChecker::check_held(const Observed& seen, const SeenJob& job) const {
  const SeenLane& lane = seen.lanes.at(job.lane);
  const int64_t size = seen.regions.at(lane.region).size;
  const bool claims_fit = seen.claimed() - seen.on_demand() + job.must - size <= seen.capacity;
  if (!claims_fit || seen.largest_gap(lane.region) < job.must) return "";
  if (lane.running.valid()) return lane.recalled ? "" : "a lane that must grow is not recalled";
  return "a job is held though its lane could grow";
}

bool TurnChecker::ends_soon(const Observed& seen) const {
  return std::any_of(seen.lanes.begin(), seen.lanes.end(), [this](const auto& one) {
    const auto& [id, lane] = one;
    const auto bounded = bounded_.find(id);
    return lane.running.valid() &&
           (lane.recalled || (bounded != bounded_.end() && bounded->second));
  });
}

bool TurnChecker::has_nothing_to_run(const Observed& seen, LaneId lane) {
  return !seen.lanes.at(lane).running.valid() &&
         std::none_of(seen.jobs.begin(), seen.jobs.end(), [&](const auto& one) {
           return one.second.lane == lane && seen.eligible(one.second);
         });
}

bool TurnChecker::could_run_elsewhere(const Observed& seen, const SeenJob& job) {
  for (const auto& [id, other] : seen.jobs) {
    const bool rival = other.offer.context_key != job.offer.context_key;
    if (rival && (other.turn.valid() || seen.eligible(other))) return false;
  }
  return std::any_of(seen.lanes.begin(), seen.lanes.end(), [&](const auto& one) {
    const auto& [id, lane] = one;
    return seen.regions.at(lane.region).size >= job.region_need && has_nothing_to_run(seen, id) &&
           seen.may_be_in(job, id);
  });
}

std::string TurnChecker::check_idle(const Observed& seen, const SeenJob& job) const {
  const SeenLane& lane = seen.lanes.at(job.lane);
  if (lane.running.valid()) {
    if (could_run_elsewhere(seen, job)) return "a job waits for a turn beside an idle lane";
    const auto bounded = bounded_.find(job.lane);
    const bool ends = lane.recalled || (bounded != bounded_.end() && bounded->second);
    return ends ? "" : "a rival waits behind a turn without bound that was not recalled";
  }
  // An idle lane is right only while the policy or numeric contexts keep it so.
  if (*keeps_apart_ && ends_soon(seen)) {
    ++*seen_apart_;
    return "";
  }
  for (const auto& [id, turn] : seen.turns) {
    if (seen.jobs.at(turn.job).offer.context_key != job.offer.context_key) return "";
    for (const auto& [other_id, other] : seen.jobs) {
      const bool rival = other.offer.context_key != job.offer.context_key;
      if (rival && seen.eligible(other)) return "";
    }
  }
  return "a job could run and its lane is idle";
}

std::string TurnChecker::settled(const Observed& seen, const Event& /*event*/) {
  for (const auto& [id, job] : seen.jobs) {
    const std::string name = " (job " + std::to_string(id.value()) + ")";
    if (job.ended && job.turn.valid() && !seen.lanes.at(job.lane).recalled) {
      return "an ended job keeps its turn" + name;
    }
    if (!job.lane.valid() || job.ended || job.leaving || seen.moves.count(id) > 0) continue;
    std::string broken;
    if (job.placed && !seen.fits_lane(job)) broken = check_held(seen, job);
    if (seen.worker_up && seen.eligible(job)) broken = check_idle(seen, job);
    if (!broken.empty()) return broken + name;
  }
  return "";
}

}  // namespace laneway::simulation
