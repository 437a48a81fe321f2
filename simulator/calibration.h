// Calibration: what a machine takes, as `laneway calibrate` measured it before any run that it is
// to predict: from one turn to the next, from an offer to the core's news of it, copies each way,
// an iteration of each kind of job alone and beside each other kind. The file is JSON
// (docs/simulate.md has its fields); one of another machine or another version of Laneway, and one
// that was changed since it was written, is refused. Value type.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "simulator/images.h"
#include "simulator/pair_speeds.h"
#include "simulator/sim_job.h"

namespace laneway::simulator {

// What the figures of a calibration depend on.
struct Machine {
  std::string cpu;  // as the kernel names its model; empty: it does not
  int64_t cores = 0;
  std::string version;
  friend bool operator==(const Machine&, const Machine&) = default;
};
Machine this_machine();

struct Calibration {
  Duration turn_gap;  // from the end of a turn to the first iteration of the next one
  Duration start_up;  // from a job's offer until it could run, but for its image's way
  CopyRates copies;
  std::map<std::string, Duration> iterations;  // alone on the device, by kind
  PairSpeeds pairs;

  // Gives each job the time that was measured of its kind. Error invalid_argument names a job
  // without a kind, or of one that was not measured.
  Status apply(std::vector<SimJob>& jobs) const;
};

// Errors invalid_argument name the file, what is wrong with it and what to do.
Result<Calibration> read_calibration(const std::string& path);
// As read; `name` stands for the path, `here` for this machine.
Result<Calibration> calibration_of(const std::string& name, std::string_view text,
                                   const Machine& here);

}  // namespace laneway::simulator
