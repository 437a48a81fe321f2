// Company: in whose company turns are open, so that the core knows which of the times that they
// report say something of a trial's level (lane_limit.h). Work per event is constant. Not
// thread-safe.
#pragma once

#include <bit>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "lanes/state/turn.h"

namespace laneway::lanes {

// What a turn's company was.
struct Stretch {
  Duration open;
  bool steady = true;  // no iteration was held meanwhile, in whatever lane
  // As many turns of jobs that are counted (counted.h) were open as the trial's level said, which
  // was the same all the time.
  Duration at_level;

  // Whether all but a fifth of the time that it computed was spent so: trials are short.
  bool was_at_level(Duration busy) const { return steady && (open - at_level) * 5 <= busy; }
};

class Company {
 public:
  explicit Company(size_t lanes) : slots_(lanes) {}

  // Whether its job is one of those that are counted.
  void opened(LaneId lane, bool counted, TimePoint now);
  // Requires: its turn is open.
  Stretch closed(LaneId lane, TimePoint now);
  // What turns tell from now on of a trial (lane_limit.h); 0: there is none.
  void watch_level(uint32_t level, TimePoint now);
  // An iteration is held, or goes on.
  void disturb() { ++disturbances_; }
  // How many turns of jobs that are counted are open.
  int counted() const { return std::popcount(counted_); }

 private:
  struct Slot {
    TimePoint since;
    uint64_t disturbances_before = 0;
    uint64_t watch = 0;
    Duration at_level_before;
  };

  void pass_until(TimePoint now);

  std::vector<Slot> slots_;
  LaneSet counted_ = 0;  // lanes with open turns of such jobs
  Duration at_level_;    // in which as many of them were open as level_ says
  uint32_t level_ = 0;
  uint64_t watches_ = 0;
  TimePoint until_;
  uint64_t disturbances_ = 0;
};

}  // namespace laneway::lanes
