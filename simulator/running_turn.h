// RunningTurn: an open turn in virtual time, and how far its job got in it. Progress is analytic:
// so much time at so much speed is so many iterations and a part of one; no event stands for an
// iteration. The turn ends at a boundary, as a worker's does: behind its budget, when it was
// recalled, or, if it has a bound, when its job has nothing to run; a turn that was granted with
// work does one iteration at least. At full speed all times are exact. Not thread-safe.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/time.h"
#include "lanes/state/event.h"
#include "lanes/state/turn.h"

namespace laneway::simulator {

class RunningTurn {
 public:
  // Its first iteration can begin at `begins`; one takes `iteration` alone on the device.
  RunningTurn(const lanes::Turn& turn, Duration iteration, TimePoint begins)
      : turn_(turn), iteration_(iteration), begins_(begins), at_(begins), worked_(begins) {}

  const lanes::Turn& turn() const { return turn_; }
  TimePoint begins() const { return begins_; }
  void recall() { recalled_ = true; }

  // What follows takes times that never go back. `queued`: iterations that its job has submitted
  // and that are not done.

  // Brings progress up to `now`; returns how many iterations ended since the last call.
  uint64_t advance(TimePoint now);
  // Whether its job has work from `now` on. Requires: progress is up to `now`.
  void set_working(TimePoint now, bool works);
  bool is_working() const { return works_; }
  // Requires: progress is up to `now`; `speed` is above 0, of what the job does alone.
  void set_speed(double speed) { speed_ = speed; }
  // The boundary at which something is to be done; never: none is. `one_by_one`: each is one.
  TimePoint due(uint64_t queued, bool one_by_one) const;
  // Whether the turn ends now. Requires: progress is up to `now`.
  bool is_over(TimePoint now, uint64_t queued) const;
  lanes::TurnEnded end(TimePoint now, bool more_ready, Bytes ephemeral) const;

  uint64_t done() const { return done_; }
  Duration busy() const { return busy_; }
  // In time alone, of the iteration that runs.
  Duration part() const { return Duration(own_ns_); }

 private:
  // After how many iterations from now on the turn ends, `queued` at most.
  uint64_t goal(uint64_t queued) const;

  lanes::Turn turn_;
  Duration iteration_;
  TimePoint begins_;
  TimePoint at_;  // progress is up to here
  bool works_ = false;
  bool recalled_ = false;
  double speed_ = 1;
  uint64_t done_ = 0;
  // Of the iteration that runs, in time alone: whole nanoseconds, and what is left of rounding.
  int64_t own_ns_ = 0;
  double rest_ns_ = 0;
  Duration busy_;
  TimePoint worked_;  // when the last iteration ended
};

}  // namespace laneway::simulator
