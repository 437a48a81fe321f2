// CoRunLoad: the simulator with several lanes whose jobs slow each other down: a job demands a part
// of the device; while the demands of those that compute exceed it each gets its share, and each
// neighbour costs a fixed part more (caches, bandwidth). Every job always has work, and what is
// counted is work in time alone, so that decisions on what runs beside what can be held against it.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "simulator/simulator.h"

namespace laneway::simulation {

struct CoRunJob {
  Duration iteration = milliseconds(5);  // alone
  double demand = 1;                     // of the device
  JobClass job_class = JobClass::training;
};

class CoRunLoad {
 public:
  static constexpr Duration kTurnGap = microseconds(80);

  // `policy` is as the registry reads it; each neighbour costs `interference` of a job's own time.
  CoRunLoad(const std::string& policy, uint32_t lanes, double interference);
  // As many lanes as pay by measure, from `first` on.
  static CoRunLoad measured(const std::string& policy, uint32_t first, double interference);
  // Numbered from 1, offered when run() begins. Requires: run() was not called.
  void add(const CoRunJob& job);
  // Goes on from where it was.
  void run(Duration time);

  // Of one job, or of all, in seconds of time alone, up to now.
  double work(uint64_t job) const { return simulator_->result(job - 1).work.seconds(); }
  double work() const;
  Duration longest_wait(uint64_t job) const { return simulator_->result(job - 1).longest_wait; }
  const lanes::Scheduler& scheduler() const { return simulator_->core(); }
  size_t open_turns() const { return simulator_->open_turns(); }

 private:
  CoRunLoad(const std::string& policy, const lanes::SchedulerConfig& core, double interference);

  std::shared_ptr<std::vector<double>> demands_;  // by job; the rule of speeds has them too
  std::unique_ptr<simulator::Simulator> simulator_;
};

}  // namespace laneway::simulation
