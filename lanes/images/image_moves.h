// ImageMoves: images move inside the pool, where the bytes that somebody wants are free but not in
// one piece. Whether it helps is tried first (room_trial.h). An image moves only into a
// range that is wholly apart from its own, which is its own too until the move has ended: so one
// that finds no such range stays. Between two turns of its job; pinned images move like others. One
// image moves at a time. Part of the core; not thread-safe.
#pragma once

#include <vector>

#include "base/time.h"
#include "lanes/state/core_state.h"
#include "lanes/state/room_trial.h"
#include "lanes/turns/turn_control.h"

namespace laneway::lanes {

class ImageMoves {
 public:
  // All arguments must outlive the object.
  ImageMoves(CoreState& core, TurnControl& turns) : core_(core), turns_(turns) {}

  // An image moves if that gives room to the wish, perhaps with others behind it. Returns whether
  // one does, or will when its job's turn has ended.
  bool make_room(const Wish& wish);
  // The pool becomes smaller: images that lie above its new end go below it, where they find room.
  // Returns whether one does or will.
  bool make_room_above(Bytes limit);
  // None of them finds room: some image moves to a lower place, so that what is free gathers below
  // the new end.
  void move_down();
  // Whether one of them would find room, as the trial left the pool.
  bool could_make_room_above(RoomTrial& trial, Bytes limit);
  // The image lies where it was to go; or the copy failed, and it lies where it was.
  void ended(Job& job, bool moved);

 private:
  // Whether it could move, and does not lie below the limit; finds a place there.
  bool lies_above(const Job& job, Bytes limit);
  bool finds_place(RoomTrial& trial, const Job& job, Bytes limit) const;
  struct Step {
    const Job* job = nullptr;  // null: none helps
    PoolMap::MoveTo to{};
  };

  // Those that may move now, by the bytes that it takes; a job that is held is one too, for its own
  // wish also.
  std::vector<const Job*> candidates();
  bool could_move(const Job& job);
  memory::FreeList::Range image_range(const Job& job) const;
  // False: there is certainly no room for the wish, even when all of them have moved.
  bool may_help(const Wish& wish, const std::vector<const Job*>& candidates) const;
  // One move that suffices.
  Step single(const Wish& wish, const std::vector<const Job*>& candidates) const;
  // The first of several: each goes down as far as it can.
  Step compaction(const Wish& wish, std::vector<const Job*> candidates) const;
  bool begin(const Step& step);

  CoreState& core_;
  TurnControl& turns_;
};

}  // namespace laneway::lanes
