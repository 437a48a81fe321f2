#include "tests/simulation/co_run_load.h"

#include <algorithm>
#include <span>

#include "base/check.h"

namespace laneway::simulation {
namespace {

lanes::SchedulerConfig core_of(uint32_t lanes) {
  lanes::SchedulerConfig config;
  config.capacity = gib(1);
  config.max_lanes = lanes;
  config.check_every = 1;
  return config;
}

}  // namespace

CoRunLoad::CoRunLoad(const std::string& policy, uint32_t lanes, double interference)
    : CoRunLoad(policy, core_of(lanes), interference) {}

CoRunLoad::CoRunLoad(const std::string& policy, const lanes::SchedulerConfig& core,
                     double interference)
    : demands_(std::make_shared<std::vector<double>>()) {
  simulator::SimulatorConfig config;
  config.core = core;
  config.policy = policy;
  config.turn_gap = kTurnGap;
  config.speeds = [interference, demands = demands_](std::span<const size_t> jobs,
                                                     std::span<double> speeds) {
    double demand = 0;
    for (const size_t job : jobs) demand += demands->at(job);
    const double neighbours = static_cast<double>(jobs.size()) - 1;
    const double speed = 1 / (std::max(1.0, demand) * (1 + interference * neighbours));
    std::fill(speeds.begin(), speeds.end(), speed);
  };
  simulator_ = std::make_unique<simulator::Simulator>(config);
}

CoRunLoad CoRunLoad::measured(const std::string& policy, uint32_t first, double interference) {
  lanes::SchedulerConfig core = core_of(limits::kMaxLanes);
  core.lane_limit = {.measured = true, .first = first};
  return {policy, core, interference};
}

void CoRunLoad::add(const CoRunJob& job) {
  demands_->push_back(job.demand);
  simulator::SimJob added;
  added.options.name = "job" + std::to_string(demands_->size());
  added.options.job_class = job.job_class;
  added.iterations = UINT64_MAX;
  added.iteration = job.iteration;
  simulator_->add(added);
}

double CoRunLoad::work() const {
  double sum = 0;
  for (uint64_t job = 1; job <= demands_->size(); ++job) sum += work(job);
  return sum;
}

void CoRunLoad::run(Duration time) {
  const Status status = simulator_->run_until(simulator_->now() + time);
  LW_CHECK(status.ok(), status.ok() ? "" : status.error().message);
}

}  // namespace laneway::simulation
