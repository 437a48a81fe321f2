// Options: what the command line and the configuration file of lanewayd say, checked. A bad value
// is refused with its name, the limit and what to give instead; nothing is started before all of
// them are known to be good. Value types; CLI11 is named in options.cc alone.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/log.h"
#include "base/result.h"
#include "service/transport/address.h"

namespace laneway::service {

struct Options {
  explicit Options(Address where) : address(std::move(where)) {}

  Address address;
  std::string device = "host";
  Bytes pool;  // 0: half of the memory that is free when the service starts; most of a device's
  std::string policy = "fifo";
  uint32_t standby = 1;
  uint32_t lanes = 0;                // 0: as many as the core allows
  uint32_t lane_sms = 0;             // multiprocessors of each lane's own; 0: all share all
  Bytes reserve;                     // of the pool, never given to jobs
  int64_t copy_bandwidth_per_s = 0;  // of images into the pool, bytes; 0: unlimited
  LogLevel log_level = LogLevel::info;
  std::string log_file;  // empty: standard error
  std::string trace;     // empty: none; else absolute

  // For tests. Where laneway-broker and laneway-worker are; empty: beside lanewayd itself.
  std::string programs;
  // All of the supervisor's waiting times are multiplied by this.
  double time_scale = 1.0;
};

// Nothing is to be started: print `text` (to standard output when code is 0, else to standard
// error) and leave with `code`.
struct Leave {
  int code = 0;
  std::string text;
};

std::variant<Options, Leave> parse_options(const std::vector<std::string>& arguments);

}  // namespace laneway::service
