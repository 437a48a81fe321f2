// Company: beside whom each open turn runs, and for how long, so that the core knows whether the
// times that a turn reports are those of its job alone or beside another one. Work per event is
// that of the two turns that are open, never of all. Not thread-safe.
#pragma once

#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "lanes/turn.h"

namespace laneway::lanes {

// What a turn's company was.
struct Stretch {
  Duration open;
  Duration alone;      // no other turn was open
  Duration beside;     // one other, of a turn that is given back when its job has nothing to run
  JobId other;         // … of this job
  bool steady = true;  // no iteration was held meanwhile, in whatever lane

  // Whether all but a tenth of the time that it computed was spent so.
  bool was_alone(Duration busy) const { return steady && (open - alone) * 10 <= busy; }
  bool was_beside(Duration busy) const { return steady && (open - beside) * 10 <= busy; }
};

class Company {
 public:
  explicit Company(size_t lanes) : slots_(lanes) {}

  // `bounded`: it is given back as soon as its job has nothing to run.
  void opened(LaneId lane, JobId job, bool bounded, TimePoint now);
  // Requires: its turn is open.
  Stretch closed(LaneId lane, TimePoint now);
  // An iteration is held, or goes on.
  void disturb() { ++disturbances_; }

 private:
  struct Slot {
    JobId job;
    bool bounded = false;
    TimePoint since;
    Duration alone_before;
    uint64_t disturbances_before = 0;
    JobId other;
    Duration beside;
  };

  void pass_until(TimePoint now);
  static void note(Slot& slot, const Slot& other, Duration time);

  std::vector<Slot> slots_;
  LaneSet open_ = 0;
  Duration alone_;  // in which exactly one turn was open, all in all
  TimePoint until_;
  uint64_t disturbances_ = 0;
};

}  // namespace laneway::lanes
