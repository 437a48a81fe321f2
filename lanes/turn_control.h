// TurnControl: whose turn it is. A turn without a rival stays open as long as its job likes; when a
// rival gets ready the turn is recalled, and while rivals exist turns have a budget. Part of the
// core; not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "lanes/checked_policy.h"
#include "lanes/context_turns.h"
#include "lanes/core_state.h"

namespace laneway::lanes {

class TurnControl {
 public:
  // Both must outlive it.
  TurnControl(CoreState& core, CheckedPolicy& policy);

  // The job has work: it is a candidate for the next turn of its lane, if it is resident.
  void announce_work(Job& job);
  // Opens a turn in the lane if it is idle and has a candidate that may run now.
  void try_grant(Lane& lane);
  // Asks the lane's open turn to end; nothing when there is none, or it was asked already.
  void recall(Lane& lane);
  // The lane's turn is over. Requires: lane.open().
  void close_turn(Lane& lane);
  // If keys of numeric contexts wait: the one that waited longest gets its turns when it may.
  void settle_contexts();

  // Bounded turns whose time is up are recalled if a rival still wants the lane.
  void recall_overdue();
  // When recall_overdue is due; TimePoint::never() when no bounded turn is open.
  TimePoint next_wakeup() const;

  // The lane in which this turn is open, or nullptr.
  Lane* lane_of_turn(TurnId turn);
  // The open turn of the lane; none when no turn is open.
  TurnId open_turn(LaneId lane) const { return open_turns_[lane.value() - 1]; }

  // For a core that takes over: turns begin behind this id.
  void continue_after(TurnId turn) { turn_ids_.continue_after(turn); }
  // Whether a turn that a worker reports can be open in this lane.
  bool may_reopen(const Lane& lane, TurnId turn, uint64_t context_key);
  // Opens it, without a bound: no report says whether it has one, and a recall too many does no
  // harm. Requires: may_reopen, and `job` is resident in the lane.
  void reopen(Lane& lane, Job& job, TurnId turn);

 private:
  void grant(Lane& lane, Job& job);
  void begin_turn(Lane& lane, Job& job, TurnId turn, const TurnBudget& budget);
  void recall_unbounded();
  void grant_context(uint64_t key);

  CoreState& core_;
  CheckedPolicy& policy_;
  std::vector<TurnId> open_turns_;    // by slot; none when no turn is open
  std::vector<TimePoint> deadlines_;  // by slot: of bounded turns, else never
  ContextTurns contexts_;
  IdSource<TurnId> turn_ids_;
};

}  // namespace laneway::lanes
