// LaneChanges: jobs that change their lane, which costs nothing but the word for it: no byte of an
// image moves. A job changes while it has no turn, whatever the state of its image.
//
// Four reasons. A held job goes where a region is large enough for it. Lanes become one, so that
// the region of one of them is free for a job that finds no room: for a held one at once, for one
// that waits after a while (SchedulerConfig::merge_after). A job that another's turn keeps waiting
// goes to a lane that has nothing to run, or to a new one while nobody wants the memory. And one
// goes to the lane whose job is the last in the policy's order of all, if it goes before that one.
// Part of the core; not thread-safe.
#pragma once

#include <span>
#include <vector>

#include "lanes/state/checked_policy.h"
#include "lanes/state/core_state.h"
#include "lanes/state/room_trial.h"
#include "lanes/turns/lane_order.h"
#include "lanes/turns/turn_control.h"

namespace laneway::lanes {

class LaneChanges {
 public:
  // All of them must outlive the object.
  LaneChanges(CoreState& core, CheckedPolicy& policy, TurnControl& turns);

  // The lane whose region has room for the held job now; none when there is no such lane.
  LaneId room_for(const Job& held) const;
  // Requires: no turn of the job is open, and `to`, where its next iteration fits, exists and is
  // not its lane.
  void change(Job& job, Lane& to);
  // Lanes become one where that frees the bytes that the wish is short of: those that have nothing
  // to run, or, if these do not suffice, others too, each between two of its turns. Returns whether
  // that was so, or is under way.
  bool merge_for(const Wish& wish);
  // Jobs that wait for others' turns go to lanes that have nothing to run, to new ones, and to
  // those of jobs that they go before.
  void spread();
  // Jobs of lanes that the limit (lane_limit.h) does not allow go to those that it does.
  void fold();

  // Another policy decides from now on, whose ranks say nothing beside those of before.
  void follow_policy();

  // When turns are to be asked whether they have work; TimePoint::never() when nobody waits for it.
  TimePoint next_wakeup() const { return ask_at_; }
  void on_timer();

 private:
  enum class Of : uint8_t { idle_lanes, all_lanes };

  // Whether jobs may share a lane for this wish.
  bool may_share(const Wish& wish) const;
  // What the wish is short of, if all free bytes were in one piece and its job went to `into`.
  Bytes shortage(const Wish& wish, const Lane& into) const;
  // The lane with the largest region; null: there is no lane.
  Lane* largest();
  // Of the others those whose bytes suffice: the smallest one that does alone, or the largest ones;
  // `most` at most. Empty when so many do not.
  std::vector<Lane*> enough(const Wish& wish, const Lane& into, Of which, size_t most);
  // How many lanes may go for the wish now.
  size_t most_for(const Wish& wish);
  bool has_nothing_to_run(const Lane& lane) const;
  void merge(Lane& from, Lane& into);
  void fold(Lane& lane, std::span<Lane* const> into);
  void look(const Lane& lane);
  // What the lanes that were touched have for others.
  void look_at_touched();
  // The job goes to the lane, whose region grows for it if it must, and both are looked at.
  void put(const policies::JobView& job, Lane& to);
  // The first of those that wait in these lanes comes into a lane that has nothing to run.
  void fill_lanes(LaneSet from);
  // A new lane for the first of those. Returns whether there was one, and room.
  bool open_one(LaneSet from);
  // Those that wait and go before the job of another lane take its lane.
  void put_in_order();
  // Puts lanes of which somebody goes before a holder of `later_` into `misplaced_`.
  void find_misplaced();
  // … between two of its turns, if its region must grow for the job.
  void let_in(const policies::JobView& job, Lane& lane);
  // Turns without a bound whose job may have nothing to run end, where somebody who waits would
  // fit.
  void ask_unbounded();

  CoreState& core_;
  CheckedPolicy& policy_;
  TurnControl& turns_;
  LaneOrder order_;
  TimePoint ask_at_ = TimePoint::never();
  bool ask_now_ = false;
  // As of when lanes were touched last.
  LaneSet idle_ = 0;
  LaneSet has_waiting_ = 0;  // those with jobs that wait for a turn of another one
  LaneSet closed_;
  bool had_spare_ = false;  // what memory_to_spare() was when all lanes were looked at last
  LaneSet later_ = 0;       // those whose holder comes later in the order than one before
  LaneSet misplaced_ = 0;   // those of which the first that waits may belong into another one
};

}  // namespace laneway::lanes
