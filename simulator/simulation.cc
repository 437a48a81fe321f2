#include "simulator/simulation.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "policies/registry.h"
#include "simulator/generator.h"
#include "simulator/pair_speeds.h"

namespace laneway::simulator {
namespace {

// More than any trace's jobs hold together.
constexpr Bytes kAllTheMemory = gib(int64_t{1} << 20);

}  // namespace

Result<JobTrace> read_jobs(const Options& options) {
  if (options.generate > 0) {
    const std::string text = generated_trace(options.generate, options.seed);
    if (!options.save_trace.empty()) {
      if (Status status = write_file(options.save_trace, text); !status) return status.error();
    }
    return trace_of(Table::parse("the generated trace", text).value(), options.choice);
  }
  auto trace = read_trace(options.trace, options.choice);
  if (trace && options.memory && !trace.value().has_memory) {
    return Error{ErrorCode::invalid_argument,
                 "--memory " + format_bytes(*options.memory) + ": " + options.trace +
                     " does not say what its jobs hold: leave it out, or give a trace with the "
                     "columns persistent_mb and ephemeral_mb"};
  }
  return trace;
}

SimulatorConfig config_of(const Options& options, const std::string& policy,
                          const std::vector<SimJob>& jobs) {
  SimulatorConfig config;
  config.core.capacity = options.memory.value_or(kAllTheMemory);
  config.core.reserve = options.reserve;
  config.core.set_lanes(options.lanes, options.lanes);
  if (options.measure_lanes) config.core.lane_limit = {.measured = true, .first = 1};
  // The service's own limit is of processes and links, which there are none of here.
  config.core.max_jobs = static_cast<uint32_t>(std::max(jobs.size(), size_t{1}));
  if (options.store) {
    config.core.store = *options.store;
  } else if (options.memory) {
    for (const SimJob& job : jobs) {
      config.core.store += job.persistent.aligned_up(config.core.alignment);
    }
  }
  config.policy = policy;
  config.copy_bytes_per_s = options.copy_bytes_per_s;
  return config;
}

Result<SpeedRule> read_speeds(const Options& options, const std::vector<SimJob>& jobs) {
  if (options.pairs.empty()) return SpeedRule();
  const auto table = Table::read(options.pairs);
  if (!table) return table.error();
  const auto pairs = PairSpeeds::of(table.value());
  if (!pairs) return pairs.error();
  return pairs.value().rule(jobs);
}

Result<PolicyRun> run_policy(const Options& options, const std::string& policy,
                             const std::vector<SimJob>& jobs, const SpeedRule& speeds) {
  SimulatorConfig config = config_of(options, policy, jobs);
  config.speeds = speeds;
  Simulator simulator(std::move(config));
  if (const auto plugin = policies::plugin_of(policy)) {
    auto adviser = Adviser::start(*plugin, options.seed, options.policy_patience);
    if (!adviser) return adviser.error();
    simulator.set_adviser(std::move(adviser).value());
  }
  for (const SimJob& job : jobs) simulator.add(job);
  if (Status status = simulator.run(); !status) return status.error();
  PolicyRun run{policy, summary_of(simulator), {}};
  for (size_t i = 0; i < jobs.size(); ++i) run.results.push_back(simulator.result(i));
  return run;
}

Status write_file(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  errno = 0;
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  std::error_code error(errno != 0 ? errno : EIO, std::generic_category());
  if (out) std::filesystem::rename(part, path, error);
  if (out && !error) return {};
  std::error_code ignored;
  std::filesystem::remove(part, ignored);
  return Error{ErrorCode::failed, "'" + path + "' cannot be written: " + error.message()};
}

}  // namespace laneway::simulator
