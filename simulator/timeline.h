// Timeline: how much of a device was in use over time, in steps of equal length, of which there are
// at most kMostSteps: when time goes beyond them each two become one. Equal runs give equal steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"

namespace laneway::simulator {

class Timeline {
 public:
  static constexpr size_t kMostSteps = 512;

  struct Step {
    TimePoint from;
    TimePoint to;
    double busy_lanes = 0;    // mean, of lanes whose turn has work
    double memory_bytes = 0;  // mean, of images and regions
  };

  // Holds from `now` on. Requires: no earlier than the last call.
  void set(TimePoint now, uint32_t busy_lanes, Bytes memory);
  // Up to the last call.
  std::vector<Step> steps() const;

 private:
  struct Sum {  // levels times nanoseconds
    double lanes = 0;
    double memory = 0;
  };

  void widen();

  int64_t width_ns_ = 1'000'000;
  std::vector<Sum> sums_;
  TimePoint now_;
  double lanes_ = 0;
  double memory_ = 0;
};

}  // namespace laneway::simulator
