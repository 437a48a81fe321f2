// LaneLoad: the simulator with one lane, and clients that keep a fixed number of submissions in
// flight and think between a result and the next one, so that promises of policies can be held
// against what they found. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/job_options.h"
#include "base/time.h"
#include "simulator/simulator.h"

namespace laneway::simulation {

struct LoadJob {
  JobOptions options = {};
  Duration iteration = milliseconds(1);
  uint64_t in_flight = 1;             // 1: its client is synchronous
  uint64_t total = UINT64_MAX;        // what it really wants; it ends then
  Duration think = microseconds(50);  // of the client, between a result and the next submission
  TimePoint begins = TimePoint();
};

class LaneLoad {
 public:
  // Between the end of a turn and the next one: two messages.
  static constexpr Duration kTurnGap = microseconds(80);

  // `policy` is as the registry reads it.
  explicit LaneLoad(const std::string& policy);
  // Numbered from 1. Requires: run() was not called.
  void add(const LoadJob& job);
  void run(TimePoint until);
  simulator::JobResult result(uint64_t job) const { return simulator_.result(job - 1); }

 private:
  simulator::Simulator simulator_;
};

}  // namespace laneway::simulation
