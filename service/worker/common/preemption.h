// Preemption: which lanes hold up which others now. The core says with each turn whose iterations
// may interrupt whose; a lane at whose turn's iteration work is under way sets control::kPause in
// the words of the lanes that yield to it, without asking anybody, and takes it back when it has
// nothing more to run. A lane that is paused itself holds nobody up, so whatever a policy says no
// two lanes wait for each other.
//
// Guarded by the worker's mutex, but for the words, which executors read.
#pragma once

#include <array>

#include "base/ids.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "base/time.h"
#include "lanes/run/control_word.h"
#include "lanes/state/turn.h"
#include "service/worker/common/bookkeeping.h"

namespace laneway::service {

class Preemption {
 public:
  // What the turn says of its lane and of the others holds from now on.
  void granted(const lanes::Turn& turn) LW_REQUIRES(kBookkeeping);
  // An iteration of the lane's turn computes; or none does.
  void begin_work(LaneId lane) LW_REQUIRES(kBookkeeping);
  void end_work(LaneId lane) LW_REQUIRES(kBookkeeping);

  // Whether some open turn's iterations may interrupt those of this lane.
  bool yields(LaneId lane) const LW_REQUIRES(kBookkeeping) { return at(lane).yields_to != 0; }
  // Whether the lane's iteration must be held now.
  bool is_held(LaneId lane) const LW_REQUIRES(kBookkeeping);
  // Whatever others do, the lane is not held (any more); or it may be held again.
  void exempt(LaneId lane, bool on) LW_REQUIRES(kBookkeeping);

  // The word of the lane's iterations.
  lanes::ControlWord& word(LaneId lane) { return at(lane).word; }
  // Sets one of control::kStop in it, which ends a wait.
  void stop(LaneId lane, uint32_t bit) LW_REQUIRES(kBookkeeping);
  // Until something of the lane's changed, or so long has passed; may return early.
  void wait(BookkeepingMutex& mutex, LaneId lane, Duration most) LW_REQUIRES(kBookkeeping) {
    mutex.wait_for(at(lane).changed, most);
  }

 private:
  struct Place {
    lanes::ControlWord word;
    CondVar changed;
    lanes::LaneSet yields_to = 0;
    bool exempt = false;
  };

  Place& at(LaneId lane) { return places_[lane.value() - 1]; }
  const Place& at(LaneId lane) const { return places_[lane.value() - 1]; }
  // Puts kPause right in the words of all lanes that yield to this one.
  void tell_those_below(lanes::LaneSet lane) LW_REQUIRES(kBookkeeping);
  void tell(Place& place) LW_REQUIRES(kBookkeeping);

  std::array<Place, limits::kMaxLanes> places_;
  lanes::LaneSet at_work_ LW_GUARDED_BY(kBookkeeping) = 0;
  lanes::LaneSet urgent_ LW_GUARDED_BY(kBookkeeping) = 0;  // to which some lane yields
};

}  // namespace laneway::service
