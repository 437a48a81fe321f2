#include "service/supervisor/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "base/device_name.h"
#include "base/limits.h"
#include "base/printable.h"
#include "base/version.h"
#include "lanes/graph/limits.h"
#include "policies/registry.h"
#include "service/supervisor/config_lines.h"
#include "service/supervisor/exit_codes.h"
#include "service/supervisor/limits.h"
#include "service/supervisor/policy_file.h"

namespace laneway::service {
namespace {

// As given; empty: not given.
struct Texts {
  std::string address, device, pool, policy, standby, lanes, max_threads, graph_memory, lane_sms,
      reserve, recovery_memory, recovery, prefix, copy_bandwidth, staging, spill;
  std::string log_level, log_file, trace, worker, programs, time_scale, vmstat;
  bool unprepared_standby = false;
};

constexpr const char* kFooter =
    "Sizes take KiB, MiB and GiB (binary), such as 512MiB. Every option may stand in the file of\n"
    "--config, one a line and without the dashes: pool = \"4GiB\"; the command line wins.\n"
    "Exit codes: 0 ended as asked, 1 failed, 2 wrong usage, 5 already running.";

// What graphs may ask of a worker.
void declare_graph_limits(CLI::App& app, Texts& texts) {
  app.add_option("--max-threads", texts.max_threads,
                 "threads of an iteration, at most: graphs that were captured with more are "
                 "refused; default: as many as the machine has processors")
      ->type_name("N");
  app.add_option("--graph-memory", texts.graph_memory,
                 "of the machine's memory, at most, for resolved graphs in all workers, as "
                 "estimated; a user has half of it; 0: no bound; default: a quarter of the "
                 "machine's memory")
      ->type_name("SIZE");
}

void declare(CLI::App& app, Texts& texts) {
  app.add_option("--device", texts.device,
                 "the device: host (default), or KIND:N of a plugin, such as cuda:0")
      ->type_name("DEVICE");
  app.add_option("--pool", texts.pool,
                 "memory that is handed out to jobs; default: half of what is free, of a CUDA "
                 "device nine tenths")
      ->type_name("SIZE");
  app.add_option("--address", texts.address,
                 "where to listen: ipc://PATH; default: $LANEWAY_ADDRESS, else "
                 "ipc://$XDG_RUNTIME_DIR/laneway/laneway.sock, else "
                 "ipc:///tmp/laneway-UID/laneway.sock")
      ->type_name("ADDRESS");
  app.add_option("--policy", texts.policy, "who runs next: NAME|FILE[:key=value...]; default: fifo")
      ->type_name("POLICY");
  app.add_option("--standby", texts.standby, "workers that wait to take over at once; default: 1")
      ->type_name("N");
  app.add_option("--lanes", texts.lanes,
                 "iterations at the same time, at most; default: of jobs that are no inferences as "
                 "many as gain by it, as measured, and 64 in all")
      ->type_name("N");
  app.add_option("--lane-sms", texts.lane_sms,
                 "multiprocessors of a CUDA device that each lane has to itself; default: 0, lanes "
                 "share all")
      ->type_name("N");
  app.add_option("--reserve", texts.reserve, "of the pool, never given to jobs; default: 0")
      ->type_name("SIZE");
  app.add_option("--recovery-memory", texts.recovery_memory,
                 "of the machine's memory, at most, for what outlives a worker that dies while it "
                 "writes a job's state; 0: none; default: as much as the pool, and at most half "
                 "of the memory that is free beside it")
      ->type_name("SIZE");
  app.add_option("--staging", texts.staging,
                 "of the machine's memory, at most, for images of jobs that leave the pool while "
                 "others need the room; 0: none; default: as much as the pool, and at most half of "
                 "the memory that is free beside all else")
      ->type_name("SIZE");
  app.add_option("--spill", texts.spill,
                 "a folder on a local disk, and how much of it images may take that find no room "
                 "in --staging; default: none")
      ->type_name("FOLDER:SIZE");
  app.add_option("--copy-bandwidth", texts.copy_bandwidth,
                 "bytes per second at which images come into the host's pool, and leave it; "
                 "default: unlimited")
      ->type_name("SIZE");
  app.add_option("--log-level", texts.log_level, "debug, info (default), warning, error or off")
      ->type_name("LEVEL");
  app.add_option("--log-file", texts.log_file, "where lines go; default: standard error")
      ->type_name("FILE");
  app.add_option("--trace", texts.trace,
                 "write down what the core hears and decides, and every iteration; read it with "
                 "laneway-trace")
      ->type_name("FILE");
  app.add_option("--worker", texts.worker,
                 "the laneway-worker for the torch that is installed; default: the one beside "
                 "lanewayd; the command of the Python package sets the variable")
      ->type_name("FILE")
      ->envname("LANEWAY_WORKER");
  app.add_option("--programs", texts.programs)->group("");
  app.add_option("--recovery", texts.recovery)->group("");
  app.add_option("--prefix", texts.prefix)->group("");
  app.add_option("--time-scale", texts.time_scale)->group("");
  app.add_option("--vmstat", texts.vmstat)->group("");
  app.add_flag("--unprepared-standby", texts.unprepared_standby)->group("");
  app.set_config("--config", "", "read options from this file (TOML or INI form)")
      ->type_name("FILE");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.set_version_flag("--version", std::string("lanewayd ") + version());
  app.footer(kFooter);
}

Error bad_value(const char* option, const std::string& text, const std::string& wanted) {
  return Error{ErrorCode::invalid_argument,
               std::string(option) + " " + (text.empty() ? "\"\"" : text) + ": " + wanted};
}

struct Range {
  uint32_t least;
  uint32_t most;
};

Result<uint32_t> whole_number(const char* option, const std::string& text, Range range) {
  uint32_t number = 0;
  const char* end = text.data() + text.size();
  const auto [after, status] = std::from_chars(text.data(), end, number);
  if (status != std::errc() || after != end || number < range.least || number > range.most) {
    return bad_value(option, text,
                     "give a whole number from " + std::to_string(range.least) + " to " +
                         std::to_string(range.most));
  }
  return number;
}

Status read_outside(const Texts& texts, Options& options) {
  if (!texts.staging.empty()) {
    const auto size = parse_bytes(texts.staging);
    if (!size) return bad_value("--staging", texts.staging, size.error().message);
    options.store = size.value();
  }
  if (texts.spill.empty()) return {};
  const size_t colon = texts.spill.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return bad_value("--spill", texts.spill, "give FOLDER:SIZE, such as /var/tmp:64GiB");
  }
  const auto size = parse_bytes(texts.spill.substr(colon + 1));
  if (!size) return bad_value("--spill", texts.spill, size.error().message);
  std::error_code error;
  options.spill_folder = std::filesystem::absolute(texts.spill.substr(0, colon), error).string();
  if (error) return bad_value("--spill", texts.spill, error.message());
  options.spill = size.value();
  if (options.spill == Bytes()) return bad_value("--spill", texts.spill, "give a size above 0");
  return {};
}

Status read_sizes(const Texts& texts, Options& options) {
  const auto read = [](const char* option, const std::string& text, Bytes& into) -> Status {
    if (text.empty()) return {};
    const auto size = parse_bytes(text);
    if (!size) return bad_value(option, text, size.error().message);
    into = size.value();
    return {};
  };
  if (Status status = read("--pool", texts.pool, options.pool); !status) return status;
  if (!texts.pool.empty() && options.pool < limits::kMinPool) {
    return bad_value("--pool", texts.pool,
                     "a pool has at least " + format_bytes(limits::kMinPool) + ": give more");
  }
  if (Status status = read("--reserve", texts.reserve, options.reserve); !status) return status;
  if (options.pool > Bytes(0) && options.reserve >= options.pool) {
    return bad_value("--reserve", texts.reserve,
                     "nothing would be left of the pool of " + format_bytes(options.pool) +
                         ": reserve less, or give a larger --pool");
  }
  if (!texts.recovery_memory.empty()) {
    Bytes recovery;
    if (Status status = read("--recovery-memory", texts.recovery_memory, recovery); !status) {
      return status;
    }
    options.recovery_memory = recovery;
  }
  if (!texts.graph_memory.empty()) {
    Bytes graphs;
    if (Status status = read("--graph-memory", texts.graph_memory, graphs); !status) return status;
    options.graph_memory = graphs;
  }
  Bytes bandwidth;
  Status status = read("--copy-bandwidth", texts.copy_bandwidth, bandwidth);
  options.copy_bandwidth_per_s = bandwidth.count();
  if (status && bandwidth > Bytes(0) && options.device != "host") {
    return bad_value("--copy-bandwidth", texts.copy_bandwidth,
                     "only the host's copies can be slowed down: leave it out, or give --device "
                     "host");
  }
  return status;
}

Status read_counts(const Texts& texts, Options& options) {
  if (!texts.standby.empty()) {
    const auto count = whole_number("--standby", texts.standby, {0, limits::kMaxStandbys});
    if (!count) return count.error();
    options.standby = count.value();
  }
  if (!texts.lanes.empty()) {
    const auto count = whole_number("--lanes", texts.lanes, {1, limits::kMaxLanes});
    if (!count) return count.error();
    options.lanes = count.value();
  }
  if (!texts.max_threads.empty()) {
    const auto count = whole_number("--max-threads", texts.max_threads, {1, limits::kMaxThreads});
    if (!count) return count.error();
    options.max_threads = count.value();
  }
  if (!texts.lane_sms.empty()) {
    const auto count = whole_number("--lane-sms", texts.lane_sms, {0, limits::kMaxLaneSms});
    if (!count) return count.error();
    options.lane_sms = count.value();
    if (options.lane_sms > 0 && options.device == "host") {
      return bad_value("--lane-sms", texts.lane_sms,
                       "the host has no multiprocessors to divide: leave it out, or give --device "
                       "cuda:N");
    }
  }
  if (texts.time_scale.empty()) return {};
  const char* end = texts.time_scale.data() + texts.time_scale.size();
  const auto [after, status] = std::from_chars(texts.time_scale.data(), end, options.time_scale);
  if (status != std::errc() || after != end || !(options.time_scale > 0) ||
      !std::isfinite(options.time_scale)) {
    return bad_value("--time-scale", texts.time_scale, "give a positive number");
  }
  return {};
}

Status read_names(const Texts& texts, Options& options) {
  if (!texts.device.empty()) options.device = texts.device;
  if (const auto device = parse_device_name(options.device); !device) {
    return bad_value("--device", options.device, device.error().message);
  }
  if (!texts.policy.empty()) options.policy = texts.policy;
  if (const auto policy = policies::make_policy(options.policy); !policy) {
    return bad_value("--policy", options.policy, policy.error().message);
  }
  auto policy = startable_policy(options.policy);
  if (!policy) return bad_value("--policy", options.policy, policy.error().message);
  options.policy = std::move(policy).value();
  if (!texts.log_level.empty()) {
    const auto level = parse_log_level(texts.log_level);
    if (!level) return bad_value("--log-level", texts.log_level, level.error().message);
    options.log_level = level.value();
  }
  options.log_file = texts.log_file;
  options.worker = texts.worker;
  options.programs = texts.programs;
  options.recovery = texts.recovery;
  options.prefix = texts.prefix;
  if (!texts.vmstat.empty()) options.vmstat = texts.vmstat;
  options.unprepared_standby = texts.unprepared_standby;
  if (!texts.trace.empty()) {
    std::error_code error;
    options.trace = std::filesystem::absolute(texts.trace, error).string();
    if (error) return bad_value("--trace", texts.trace, error.message());
  }
  return {};
}

Result<Options> read(const Texts& texts) {
  auto address = Address::parse_or_standard(texts.address);
  if (!address) return Error{ErrorCode::invalid_argument, "--address: " + address.error().message};
  Options options(std::move(address).value());
  if (Status status = read_names(texts, options); !status) return status.error();
  if (Status status = read_sizes(texts, options); !status) return status.error();
  if (Status status = read_outside(texts, options); !status) return status.error();
  if (Status status = read_counts(texts, options); !status) return status.error();
  return options;
}

// Whether the command line has the option, which then wins over the file.
bool is_given(const std::vector<std::string>& arguments, const std::string& option) {
  return std::any_of(arguments.begin(), arguments.end(), [&option](const std::string& word) {
    return word == option || word.starts_with(option + "=");
  });
}

// What is wrong with an option that stands in the file of --config, with its place there. An
// option is named as on the command line: by its dashes.
std::string with_place(const CLI::App& app, const std::vector<std::string>& arguments,
                       const std::string& complaint) {
  const CLI::Option* const file = app.get_config_ptr();
  if (file->count() == 0) return complaint;
  const ConfigLines config = ConfigLines::read(file->as<std::string>());
  for (const ConfigLines::Line& line : config.lines()) {
    if (line.key.starts_with('[')) {
      return config.place_of(line) + line.key + ": the file has no sections: leave it out\n";
    }
    if (app.get_option_no_throw("--" + line.key) != nullptr) continue;
    return config.place_of(line) + "there is no option '" + printable(line.key) +
           "': `lanewayd --help` shows all; a line is NAME = VALUE\n";
  }
  for (const ConfigLines::Line& line : config.lines()) {
    const std::string option = "--" + line.key;
    const bool is_first =
        complaint.starts_with(option + " ") || complaint.starts_with(option + ":");
    if (is_first && !is_given(arguments, option)) return config.place_of(line.key) + complaint;
  }
  return complaint;
}

}  // namespace

std::variant<Options, Leave> parse_options(const std::vector<std::string>& arguments) {
  CLI::App app(
      "lanewayd: runs deep-learning jobs of many processes on one device, out of one pool of "
      "memory.",
      "lanewayd");
  Texts texts;
  try {
    declare(app, texts);
    declare_graph_limits(app, texts);
    // CLI11 takes them last first.
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream complaint;
    if (app.exit(error, out, complaint) == 0) return Leave{kExitDone, out.str()};
    return Leave{kExitUsage, "lanewayd: " + with_place(app, arguments, complaint.str())};
  }
  auto options = read(texts);
  if (!options) {
    return Leave{kExitUsage,
                 "lanewayd: " + with_place(app, arguments, options.error().message + "\n")};
  }
  return std::move(options).value();
}

}  // namespace laneway::service
