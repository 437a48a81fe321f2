// What laneway-simulate does with its options: the jobs of the trace under each policy.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "simulator/options.h"
#include "simulator/report.h"

namespace laneway::simulator {

// The jobs that the options ask for, written to a file too if they are generated and it is asked
// for; error invalid_argument also when memory matters and the trace
// says nothing of it.
Result<JobTrace> read_jobs(const Options& options);

// The configuration of a device with these options, whose jobs these are.
SimulatorConfig config_of(const Options& options, const std::string& policy,
                          const std::vector<SimJob>& jobs);

// How fast these jobs compute beside each other; without --pairs a rule that is none.
Result<SpeedRule> read_speeds(const Options& options, const std::vector<SimJob>& jobs);

// Error internal when jobs never end (Simulator::run); failed when a policy's program fails.
Result<PolicyRun> run_policy(const Options& options, const std::string& policy,
                             const std::vector<SimJob>& jobs, const SpeedRule& speeds = {});

// Writes the file whole or not at all; the error names it.
Status write_file(const std::string& path, const std::string& text);

}  // namespace laneway::simulator
