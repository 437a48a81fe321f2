// Options: what the command line and the configuration file of lanewayd say, checked. A bad value
// is refused with its name, the limit and what to give instead; nothing is started before all of
// them are known to be good. Value types; CLI11 is named in options.cc alone.
#pragma once

#include <cstdint>
#include <optional>
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
  std::string policy = "fifo";  // one from outside the tree with its absolute path
  uint32_t standby = 1;
  uint32_t lanes = 0;                 // 0: as many as pay
  uint32_t max_threads = 0;           // of an iteration; 0: the machine's processors
  std::optional<Bytes> graph_memory;  // of resolved graphs, all workers together; none: a quarter
  uint32_t lane_sms = 0;              // multiprocessors of each lane's own; 0: all share all
  Bytes reserve;                      // of the pool, never given to jobs
  // For what a successor needs of a dead worker; none: choose_recovery decides; 0: no such memory.
  std::optional<Bytes> recovery_memory;
  // For images that are not in the pool; none: choose_store decides; 0: no such memory.
  std::optional<Bytes> store;
  std::string spill_folder;  // empty: no file for images
  Bytes spill;
  int64_t copy_bandwidth_per_s = 0;  // of images into the pool, bytes; 0: unlimited
  LogLevel log_level = LogLevel::info;
  std::string log_file;  // empty: standard error
  std::string trace;     // empty: none; else absolute

  // The program laneway-worker; empty: the one in `programs`.
  std::string worker;

  // For tests and benches. Standbys wait, and prepare nothing.
  bool unprepared_standby = false;
  // Where laneway-broker and laneway-worker are; empty: beside lanewayd itself.
  std::string programs;
  // How jobs are kept recoverable, whatever it costs: wire::ServiceConfig::recovery.
  std::string recovery;
  // How much of an image stays in the pool when it leaves: wire::ServiceConfig::prefix.
  std::string prefix;
  // Where the kernel's count of processes that it killed for memory is read.
  std::string vmstat = "/proc/vmstat";
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
