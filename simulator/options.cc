#include "simulator/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "base/limits.h"
#include "base/number_text.h"
#include "plugin/plugin_process.h"
#include "policies/registry.h"
#include "simulator/core_settings.h"
#include "simulator/decimal.h"
#include "simulator/option_texts.h"
#include "simulator/pair_speeds.h"

namespace laneway::simulator {
namespace {

constexpr uint32_t kMostDevices = 64;
constexpr double kMostJitter = 0.9;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kLongestGapS = 3'600;

Error bad_value(const char* option, const std::string& text, const std::string& wanted) {
  return Error{ErrorCode::invalid_argument,
               std::string(option) + " " + (text.empty() ? "\"\"" : text) + ": " + wanted};
}

Result<uint64_t> whole_number(const char* option, const std::string& text, uint64_t least,
                              uint64_t most) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [after, status] = std::from_chars(text.data(), end, number);
  if (status == std::errc() && after == end && number >= least && number <= most) return number;
  return bad_value(
      option, text,
      "give a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

Status read_size(const char* option, const std::string& text, Bytes& into) {
  if (text.empty()) return {};
  const auto size = parse_bytes(text);
  if (!size) return bad_value(option, text, size.error().message);
  into = size.value();
  return {};
}

Status read_policies(const std::string& text, std::vector<std::string>& into) {
  if (text.empty()) return {};
  into.clear();
  std::istringstream list(text + ",");
  for (std::string one; std::getline(list, one, ',');) {
    if (const auto policy = policies::make_policy(one); !policy) {
      return bad_value("--policy", one, policy.error().message);
    }
    if (const auto plugin = policies::plugin_of(one)) {
      const Status fine = plugin::check_program(plugin->file);
      if (!fine) return bad_value("--policy", one, fine.error().message);
    }
    if (std::find(into.begin(), into.end(), one) != into.end()) {
      return bad_value("--policy", one, "stands there twice: results are named after it");
    }
    into.push_back(one);
  }
  return {};
}

Status read_sizes(const Texts& texts, Options& options) {
  if (!texts.memory.empty()) options.memory.emplace();
  if (options.memory) {
    if (Status status = read_size("--memory", texts.memory, *options.memory); !status) {
      return status;
    }
    if (*options.memory == Bytes()) return bad_value("--memory", texts.memory, "give more than 0");
  }
  if (Status status = read_size("--reserve", texts.reserve, options.reserve); !status) {
    return status;
  }
  if (options.memory && options.reserve >= *options.memory) {
    return bad_value("--reserve", texts.reserve,
                     "nothing would be left of the memory of " + format_bytes(*options.memory) +
                         ": reserve less, or give more --memory");
  }
  if (!options.memory && options.reserve > Bytes()) {
    return bad_value("--reserve", texts.reserve, "it is a part of --memory: give that too");
  }
  if (!texts.store.empty()) options.store.emplace();
  if (options.store) {
    if (Status status = read_size("--store", texts.store, *options.store); !status) return status;
  }
  Bytes rate;
  Status status = read_size("--copy-bandwidth", texts.copy_bandwidth, rate);
  options.copies = {.in = rate.count(), .out = rate.count()};
  return status;
}

Status read_rows(const std::string& text, TraceChoice& choice) {
  if (text.empty()) return {};
  const size_t colon = text.find(':');
  const auto bound = [&](const std::string& part, uint64_t least) {
    return whole_number("--rows", part, least, UINT32_MAX);
  };
  if (colon == std::string::npos) return bad_value("--rows", text, "give A:B, such as 0:1000");
  const std::string first = text.substr(0, colon);
  const std::string last = text.substr(colon + 1);
  if (!first.empty()) {
    const auto number = bound(first, 0);
    if (!number) return number.error();
    choice.first = number.value();
  }
  if (last.empty()) return {};
  const auto number = bound(last, choice.first + 1);
  if (!number) return number.error();
  choice.last = number.value();
  return {};
}

Status read_choice(const Texts& texts, TraceChoice& choice) {
  if (!texts.format.empty()) {
    choice.format = format_named(texts.format);
    if (!choice.format) {
      return bad_value("--format", texts.format, "give laneway, philly, tiresias or record");
    }
  }
  for (const std::string& text : texts.where) {
    const size_t equal = text.find('=');
    if (equal == std::string::npos || equal == 0) {
      return bad_value("--where", text, "give COLUMN=VALUE, such as num_gpus=1");
    }
    choice.where.emplace_back(text.substr(0, equal), text.substr(equal + 1));
  }
  if (texts.estimates == "none") {
    choice.estimates = Estimates::none;
  } else if (!texts.estimates.empty() && texts.estimates != "trace") {
    return bad_value("--estimates", texts.estimates, "give trace or none");
  }
  return read_rows(texts.rows, choice);
}

Status read_source(const Texts& texts, Options& options) {
  options.trace = texts.trace;
  options.save_trace = texts.save_trace;
  if (texts.trace.empty() == texts.generate.empty()) {
    return Error{ErrorCode::invalid_argument,
                 "--trace FILE or --generate JOBS is needed, and one of them: what is to be "
                 "simulated"};
  }
  if (texts.generate.empty()) {
    return texts.save_trace.empty()
               ? Status()
               : bad_value("--save-trace", texts.save_trace, "only generated jobs are written");
  }
  const auto jobs = whole_number("--generate", texts.generate, 1, 1'000'000);
  if (!jobs) return jobs.error();
  options.generate = jobs.value();
  return {};
}

// Who computes beside whom, and how fast.
Status read_company(const Texts& texts, Options& options) {
  if (!texts.devices.empty()) {
    const auto devices = whole_number("--devices", texts.devices, 1, kMostDevices);
    if (!devices) return devices.error();
    options.devices = static_cast<uint32_t>(devices.value());
  }
  if (!texts.lanes.empty()) {
    const auto lanes = whole_number("--lanes", texts.lanes, 1, limits::kMaxLanes);
    if (!lanes) return lanes.error();
    options.lanes = static_cast<uint32_t>(lanes.value());
  }
  options.pairs = texts.pairs;
  options.measure_lanes = texts.open_lanes == "measured";
  if (!texts.open_lanes.empty() && !options.measure_lanes && texts.open_lanes != "all") {
    return bad_value("--open-lanes", texts.open_lanes, "give all or measured");
  }
  if (!options.pairs.empty() && options.lanes > PairSpeeds::kLanes) {
    return bad_value("--lanes", texts.lanes,
                     "--pairs says what two jobs do at a time: give 2 at most");
  }
  if (options.pairs.empty() && texts.calibration.empty() && options.measure_lanes) {
    return Error{ErrorCode::invalid_argument,
                 "--open-lanes measured: without --pairs or --calibration lanes are equal servers, "
                 "and all of them pay: give one of the two, or leave it out"};
  }
  return {};
}

Status read_jitter(const std::string& text, double& into) {
  if (text.empty()) return {};
  const char* end = text.data() + text.size();
  const auto [after, status] = std::from_chars(text.data(), end, into);
  if (status == std::errc() && after == end && into >= 0 && into <= kMostJitter) return {};
  return bad_value("--jitter", text, "give a part from 0 to " + number_text(kMostJitter));
}

Status read_turn_gap(const std::string& text, Duration& into) {
  if (text.empty()) return {};
  const auto gap = scaled_decimal(text, kSecond);
  if (!gap || *gap < 0 || *gap > kLongestGapS * kSecond) {
    return bad_value("--turn-gap", text,
                     "give seconds from 0 to " + std::to_string(kLongestGapS) + ", such as 0.001");
  }
  into = Duration(*gap);
  return {};
}

Status read_settings(const Texts& texts, Options& options) {
  lanes::SchedulerConfig config;
  for (const std::string& text : texts.settings) {
    if (Status status = apply_setting(text, config); !status) {
      return Error{ErrorCode::invalid_argument, "--set " + status.error().message};
    }
  }
  if (!config.budget.is_bound()) {
    return Error{ErrorCode::invalid_argument,
                 "--set budget=0 and slice_s=0: a turn that others wait for needs a bound: set one "
                 "of them above 0"};
  }
  options.settings = texts.settings;
  return {};
}

Status read_calibrated(const Texts& texts, Options& options) {
  if (texts.calibration.empty()) return {};
  for (const auto& [option, text] :
       {std::pair("--turn-gap", texts.turn_gap),
        std::pair("--copy-bandwidth", texts.copy_bandwidth), std::pair("--pairs", texts.pairs)}) {
    if (text.empty()) continue;
    return bad_value(option, text, "--calibration says that already: leave one of the two out");
  }
  if (options.lanes > PairSpeeds::kLanes) {
    return bad_value("--lanes", texts.lanes,
                     "--calibration says what two jobs do at a time: give 2 at most");
  }
  auto found = read_calibration(texts.calibration);
  if (!found) return bad_value("--calibration", texts.calibration, found.error().message);
  options.calibration_file = texts.calibration;
  options.turn_gap = found.value().turn_gap;
  options.start_up = found.value().start_up;
  options.copies = found.value().copies;
  options.calibration = std::move(found).value();
  return {};
}

Result<Options> read_replay(const Texts& texts) {
  Texts alone;
  alone.replay = texts.replay;
  if (!(texts == alone)) {
    return bad_value("--replay", texts.replay,
                     "a record is repeated as it is: leave all other options out");
  }
  Options options;
  options.replay = texts.replay;
  return options;
}

Result<Options> read(const Texts& texts) {
  if (!texts.replay.empty()) return read_replay(texts);
  Options options;
  if (Status status = read_source(texts, options); !status) return status.error();
  if (Status status = read_choice(texts, options.choice); !status) return status.error();
  if (Status status = read_policies(texts.policy, options.policies); !status) {
    return status.error();
  }
  if (Status status = read_sizes(texts, options); !status) return status.error();
  if (Status status = read_company(texts, options); !status) return status.error();
  if (!texts.policy_patience.empty()) {
    const auto most = whole_number("--policy-patience", texts.policy_patience, 1, 86'400);
    if (!most) return most.error();
    options.policy_patience = seconds(static_cast<int64_t>(most.value()));
  }
  if (Status status = read_jitter(texts.jitter, options.jitter); !status) return status.error();
  if (Status status = read_turn_gap(texts.turn_gap, options.turn_gap); !status) {
    return status.error();
  }
  if (Status status = read_calibrated(texts, options); !status) return status.error();
  if (Status status = read_settings(texts, options); !status) return status.error();
  if (!texts.seed.empty()) {
    const auto seed = whole_number("--seed", texts.seed, 0, UINT64_MAX);
    if (!seed) return seed.error();
    options.seed = seed.value();
  }
  options.json = texts.json;
  options.csv = texts.csv;
  options.timeline = texts.timeline;
  return options;
}

}  // namespace

std::variant<Options, Leave> parse_options(const std::vector<std::string>& arguments) {
  CLI::App app("laneway-simulate: what a device would do with the jobs of a trace.",
               "laneway-simulate");
  Texts texts;
  try {
    declare(app, texts);
    // CLI11 takes them last first.
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream complaint;
    if (app.exit(error, out, complaint) == 0) return Leave{kExitDone, out.str()};
    return Leave{kExitUsage, "laneway-simulate: " + complaint.str()};
  }
  auto options = read(texts);
  if (!options) return Leave{kExitUsage, "laneway-simulate: " + options.error().message + "\n"};
  return std::move(options).value();
}

}  // namespace laneway::simulator
