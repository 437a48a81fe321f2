// SaveAhead: images of jobs that have nothing to run are copied out of the pool ahead of need, and
// stay in it; so that whoever needs the room later finds clean images, which leave for nothing.
// Only where images have had to leave, only into the host store (a job whose work comes stops the
// copy, and a disk may not let go of it), and one at a time, while nothing else leaves. Part of the
// core; not thread-safe.
#pragma once

#include "base/time.h"
#include "lanes/state/core_state.h"
#include "lanes/turns/turn_control.h"

namespace laneway::lanes {

class SaveAhead {
 public:
  // Both must outlive the object.
  SaveAhead(CoreState& core, TurnControl& turns) : core_(core), turns_(turns) {}

  // A job may have nothing to run from now on, or room outside is free.
  void look_soon();
  TimePoint next_wakeup() const { return wakeup_; }
  void on_timer();
  // SaveImage was answered. Requires: the job is being saved.
  void saved(Job& job, bool whole);
  // Its copy is out of date: it works now and then, and another copy would be, too.
  void outdated(Job& job);

 private:
  // The one among those without work that was used longest ago; null when there is none now, and
  // wakeup_ is when there may be one.
  Job* next();
  // Whether the job has had nothing to run for long enough; wakeup_ when it may have had later.
  bool is_idle(const Job& job);
  // Its turn has no bound, and it may have had nothing to run for long: the turn's end says so.
  void ask_for_work(const Job& running);
  // Whether that moment is still to come; it wakes then.
  bool look_again(TimePoint when);

  CoreState& core_;
  TurnControl& turns_;
  TimePoint wakeup_ = TimePoint::never();
};

}  // namespace laneway::lanes
