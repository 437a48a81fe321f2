// LaneTeams: which lanes' work computes with a team of OpenMP threads now, and which lanes' threads
// have kept a team for a while without using it. OpenMP waits at barriers without sleeping only
// while the threads of the process do not outnumber the processors, and kept ones count
// (adaptor/scope/thread_team.h): a team that idles makes each iteration of another lane's up
// to 2.5 times as long. Only its own thread can end a team, so whoever begins to compute with one
// wakes those that keep one in vain; when they end theirs is LaneWait's rule (rules of teams:
// thread_team.h).
//
// Guarded by the worker's mutex, but for the question whether others compute.
#pragma once

#include <array>
#include <atomic>

#include "base/ids.h"
#include "base/limits.h"
#include "lanes/state/turn.h"
#include "service/worker/common/bookkeeping.h"

namespace laneway::service {

class LaneTeams {
 public:
  // Where the thread of a lane waits that keeps a team in vain.
  class Waiter {
   public:
    // Ends the wait.
    virtual void arrived() LW_REQUIRES(kBookkeeping) = 0;

   protected:
    ~Waiter() = default;
  };

  // Work of the lane computes with several threads now, or no longer.
  void begin(LaneId lane) LW_REQUIRES(kBookkeeping);
  void end(LaneId lane) LW_REQUIRES(kBookkeeping) { computing_ &= ~lanes::set_of(lane); }
  // Whether work of other lanes does.
  bool others_compute(LaneId lane) const { return (computing_ & ~lanes::set_of(lane)) != 0; }

  // The thread that waits there keeps a team in vain: it is woken when another lane's work begins
  // to compute with one, until it uses or ends its own, which it does before it is gone.
  void kept(LaneId lane, Waiter& waiter) LW_REQUIRES(kBookkeeping);
  void ended(LaneId lane) LW_REQUIRES(kBookkeeping) { kept_ &= ~lanes::set_of(lane); }

 private:
  std::atomic<lanes::LaneSet> computing_{0};  // written with the mutex held
  lanes::LaneSet kept_ LW_GUARDED_BY(kBookkeeping) = 0;
  std::array<Waiter*, limits::kMaxLanes> waiters_ LW_GUARDED_BY(kBookkeeping){};
};

}  // namespace laneway::service
