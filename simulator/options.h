// Options: what the command line of laneway-simulate says, checked. A bad value is refused with its
// name, the limit and what to give instead, before anything is simulated. Value types; CLI11 is
// named in options.cc alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "simulator/calibration.h"
#include "simulator/images.h"
#include "simulator/job_trace.h"

namespace laneway::simulator {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

struct Options {
  std::string replay;  // a record, of which every decision is repeated; all else counts only
                       // where this is empty
  std::string trace;   // empty: `generate` jobs are drawn
  uint64_t generate = 0;
  std::string save_trace;  // where to write these; empty: nowhere
  TraceChoice choice;
  std::vector<std::string> policies = {"fifo"};  // as given; no two are equal
  Duration policy_patience = seconds(10);        // with a policy's program, at one instant
  uint32_t devices = 1;
  uint32_t lanes = 1;           // of each
  bool measure_lanes = false;   // … at most: as many as pay, found by measure as a service does
  std::string pairs;            // who slows whom down (pair_speeds.h); empty: nobody does
  std::optional<Bytes> memory;  // of each device; none: memory does not constrain
  Bytes reserve;
  CopyRates copies;
  std::optional<Bytes> store;              // outside of the pool; none: what all images take, if
                                           // memory is given, else 0
  std::vector<std::string> settings;       // of the core, as apply_setting takes them
  double jitter = 0;                       // as SimulatorConfig has it
  Duration turn_gap;                       // … and this
  Duration start_up;                       // … and this
  std::string calibration_file;            // as given; empty: none
  std::optional<Calibration> calibration;  // of that file
  uint64_t seed = 1;
  std::string json;  // files to write; empty: none
  std::string csv;
  std::string timeline;
};

// Nothing is to be simulated: print `text` (to standard output when code is 0, else to standard
// error) and leave with `code`.
struct Leave {
  int code = 0;
  std::string text;
};

std::variant<Options, Leave> parse_options(const std::vector<std::string>& arguments);

}  // namespace laneway::simulator
