#include "simulator/simulation.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "policies/registry.h"
#include "simulator/core_settings.h"
#include "simulator/devices.h"
#include "simulator/generator.h"
#include "simulator/pair_speeds.h"

namespace laneway::simulator {
namespace {

// More than any trace's jobs hold together.
constexpr Bytes kAllTheMemory = gib(int64_t{1} << 20);

// The rule, for a device whose n-th job is `numbers[n]` of all.
SpeedRule speeds_among(const SpeedRule& rule, const std::vector<size_t>& numbers) {
  if (!rule) return {};
  return [rule, numbers](std::span<const size_t> jobs, std::span<double> speeds) {
    std::vector<size_t> of_all;
    for (const size_t job : jobs) of_all.push_back(numbers[job]);
    rule(of_all, speeds);
  };
}

Result<JobTrace> generate_jobs(const Options& options) {
  const std::string text = generated_trace(options.generate, options.seed);
  if (!options.save_trace.empty()) {
    if (Status status = write_file(options.save_trace, text); !status) return status.error();
  }
  return trace_of(Table::parse("the generated trace", text).value(), options.choice);
}

}  // namespace

Result<JobTrace> read_jobs(const Options& options) {
  auto trace =
      options.generate > 0 ? generate_jobs(options) : read_trace(options.trace, options.choice);
  if (trace && options.memory && !trace.value().has_memory) {
    return Error{ErrorCode::invalid_argument,
                 "--memory " + format_bytes(*options.memory) + ": " + options.trace +
                     " does not say what its jobs hold: leave it out, or give a trace with the "
                     "columns persistent_mb and ephemeral_mb"};
  }
  if (trace && options.calibration) {
    if (Status status = options.calibration->apply(trace.value().jobs); !status) {
      return status.error();
    }
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
  // The whole state is looked at so seldom that this costs each event a constant time.
  config.core.check_every = std::max(config.core.check_every, config.core.max_jobs);
  if (options.store) {
    config.core.store = *options.store;
  } else if (options.memory) {
    for (const SimJob& job : jobs) {
      config.core.store += job.persistent.aligned_up(config.core.alignment);
    }
  }
  for (const std::string& setting : options.settings) {
    const Status status = apply_setting(setting, config.core);
    LW_CHECK(status.ok(), "settings were checked with the options");
  }
  config.turn_gap = options.turn_gap;
  config.start_up = options.start_up;
  config.jitter = options.jitter;
  config.seed = options.seed;
  config.policy = policy;
  config.copies = options.copies;
  return config;
}

Result<SpeedRule> read_speeds(const Options& options, const std::vector<SimJob>& jobs) {
  if (options.calibration && options.lanes > 1) return options.calibration->pairs.rule(jobs);
  if (options.pairs.empty()) return SpeedRule();
  const auto table = Table::read(options.pairs);
  if (!table) return table.error();
  const auto pairs = PairSpeeds::of(table.value());
  if (!pairs) return pairs.error();
  return pairs.value().rule(jobs);
}

Result<PolicyRun> run_policy(const Options& options, const std::string& policy,
                             const std::vector<SimJob>& jobs, const SpeedRule& speeds) {
  const Devices devices{.count = options.devices,
                        .lanes = options.lanes,
                        .room = options.memory.value_or(kAllTheMemory) - options.reserve};
  const std::vector<uint32_t> device_of = devices_of(jobs, devices);
  PolicyRun run{.policy = policy, .summary = {}, .results = {}, .timelines = {}};
  run.results.resize(jobs.size());
  Counts counts;
  for (uint32_t device = 0; device < options.devices; ++device) {
    std::vector<size_t> numbers;  // of the device's jobs
    std::vector<SimJob> own;
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (device_of[i] != device) continue;
      numbers.push_back(i);
      own.push_back(jobs[i]);
    }
    SimulatorConfig config = config_of(options, policy, own);
    config.speeds = speeds_among(speeds, numbers);
    // Of equal numbers on two devices each draws its own.
    config.seed += device;
    Simulator simulator(std::move(config));
    if (const auto plugin = policies::plugin_of(policy)) {
      auto adviser = Adviser::start(*plugin, options.seed, options.policy_patience);
      if (!adviser) return adviser.error();
      simulator.set_adviser(std::move(adviser).value());
    }
    for (const SimJob& job : own) simulator.add(job);
    if (Status status = simulator.run(); !status) return status.error();
    for (size_t i = 0; i < own.size(); ++i) {
      run.results[numbers[i]] = simulator.result(i);
      run.results[numbers[i]].device = device + 1;
    }
    counts += simulator.counts();
    run.timelines.push_back(simulator.timeline());
  }
  run.summary = summary_of(jobs, run.results, counts);
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
