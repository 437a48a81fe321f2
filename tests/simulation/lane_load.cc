#include "tests/simulation/lane_load.h"

#include "base/check.h"

namespace laneway::simulation {
namespace {

simulator::SimulatorConfig one_lane(const std::string& policy) {
  simulator::SimulatorConfig config;
  config.core.capacity = gib(1);
  config.core.max_lanes = 1;
  config.policy = policy;
  config.turn_gap = LaneLoad::kTurnGap;
  return config;
}

}  // namespace

LaneLoad::LaneLoad(const std::string& policy) : simulator_(one_lane(policy)) {}

void LaneLoad::add(const LoadJob& job) {
  simulator::SimJob added;
  added.options = job.options;
  added.options.name = "job" + std::to_string(simulator_.jobs() + 1);
  added.submit = job.begins;
  added.iterations = job.total;
  added.iteration = job.iteration;
  added.gap = job.think;
  added.in_flight = job.in_flight;
  simulator_.add(added);
}

void LaneLoad::run(TimePoint until) {
  const Status status = simulator_.run_until(until);
  LW_CHECK(status.ok(), status.ok() ? "" : status.error().message);
}

}  // namespace laneway::simulation
