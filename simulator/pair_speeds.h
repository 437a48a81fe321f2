// PairSpeeds: how fast jobs of two kinds compute beside each other, as somebody measured it: the
// rule of speeds (simulator.h) for a device with two lanes. A CSV file with a header has a line for
// each pair of kinds, in whatever order: job_a, job_b, norm_a, norm_b, the speed of each beside the
// other, in parts of what it does alone, as in Gavel (Narayanan et al., "Heterogeneity-Aware
// Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020). Two speeds of 0: the two do
// not run beside each other at all; a device that is given both lets them take turns, half of the
// time each. Value type.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "simulator/sim_job.h"
#include "simulator/simulator.h"
#include "simulator/table.h"

namespace laneway::simulator {

class PairSpeeds {
 public:
  static constexpr uint32_t kLanes = 2;  // that it knows of at most

  // Error invalid_argument names file, line and column.
  static Result<PairSpeeds> of(const Table& table);

  // For these jobs; error invalid_argument names a job without a kind, or of a kind whose pair with
  // another job's is not in the file.
  Result<SpeedRule> rule(const std::vector<SimJob>& jobs) const;

 private:
  using Kinds = std::pair<std::string, std::string>;
  using Pair = std::pair<double, double>;

  Status add(const Table& table, size_t row);

  std::string name_;
  std::map<Kinds, Pair> speeds_;  // of both orders
};

}  // namespace laneway::simulator
