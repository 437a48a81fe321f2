// Company: beside whom each open turn runs, and for how long, so that the core knows whether the
// times that a turn reports are those of its job alone or beside another one. Work per event is
// that of the two turns that are open, never of all. Not thread-safe.
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
  Duration alone;      // no other turn was open
  Duration beside;     // one other, of a turn that is given back when its job has nothing to run
  JobId other;         // … of this job
  bool steady = true;  // no iteration was held meanwhile, in whatever lane
  // As many turns of jobs that are counted (counted.h) were open as the trial's level said, which
  // was the same all the time.
  Duration at_level;

  // Whether all but a tenth of the time that it computed was spent so.
  bool was_alone(Duration busy) const { return steady && (open - alone) * 10 <= busy; }
  bool was_beside(Duration busy) const { return steady && (open - beside) * 10 <= busy; }
  // Trials are short, and of turns that are: a fifth.
  bool was_at_level(Duration busy) const { return steady && (open - at_level) * 5 <= busy; }
};

// Of a turn that begins.
struct Begun {
  JobId job;
  bool bounded = false;  // it is given back as soon as its job has nothing to run
  bool counted = false;  // counted.h
};

class Company {
 public:
  explicit Company(size_t lanes) : slots_(lanes) {}

  void opened(LaneId lane, const Begun& turn, TimePoint now);
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
    Begun turn;
    TimePoint since;
    Duration alone_before;
    uint64_t disturbances_before = 0;
    uint64_t watch = 0;
    Duration at_level_before;
    JobId other;
    Duration beside;
  };

  void pass_until(TimePoint now);
  static void note(Slot& slot, const Slot& other, Duration time);

  std::vector<Slot> slots_;
  LaneSet open_ = 0;
  LaneSet counted_ = 0;  // of them
  Duration alone_;       // in which exactly one turn was open, all in all
  Duration at_level_;    // in which as many of those that are counted were open as level_ says
  uint32_t level_ = 0;
  uint64_t watches_ = 0;
  TimePoint until_;
  uint64_t disturbances_ = 0;
};

}  // namespace laneway::lanes
