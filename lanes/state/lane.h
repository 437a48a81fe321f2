// Lane: a place where one turn at a time is open, and its state machine. Lane ids are slots: a
// closed lane's id is used again by the next lane that is opened. Plain data plus a pure function;
// not thread-safe.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "lanes/pool/region.h"
#include "lanes/state/turn.h"

namespace laneway::lanes {

enum class LaneState : uint8_t {
  closed,    // does not exist
  idle,      // no turn is open: its region may change
  granted,   // a turn is open
  recalled,  // a turn is open and was asked to end
};

const char* lane_state_name(LaneState state);
// closed -> idle -> granted -> (recalled ->) idle -> closed.
bool lane_transition_allowed(LaneState from, LaneState to);

// What is looked at of every lane comes first: together it is a line of the cache.
struct alignas(64) Lane {
  LaneId id;
  Region region;
  // A job of the lane that needs its region whole, where one is known (CoreState::needs_region).
  JobId needs_region;
  // True when the jobs' needs changed: the region is fitted to them when no turn is open.
  bool fit_wanted = false;
  // True when its region is smaller than its neediest job wants: it grows as soon as there is room.
  bool wants_more = false;
  // True when a waiting job needs this lane between two turns.
  bool admission_wanted = false;
  // True when the lane is in CoreState::touched.
  bool touched = false;
  // True when it was touched since LaneChanges looked at it.
  bool is_news = false;

  bool open() const { return state_ == LaneState::granted || state_ == LaneState::recalled; }
  LaneState state() const { return state_; }
  // Requires: the transition is allowed; another one is a bug of the core.
  void move_to(LaneState state);

 private:
  LaneState state_ = LaneState::closed;

 public:
  // While a turn is open:
  Turn turn;
  bool bounded = false;  // the turn has a budget because other jobs wait
  bool brief = false;    // … a short one, because lanes take turns in a trial
  // … not for the lane, but for memory or other lanes: it ends when its job has had nothing to run.
  bool lingers = false;
  TimePoint granted_at;
  bool hurried = false;  // … and was asked to end soon, because a more urgent job waits
  // True when a job got ready while a turn is open: the policy is asked whether that goes on.
  bool rival_came = false;
};

}  // namespace laneway::lanes
