// LaneOrder: one order over all lanes, by the policy's turn_rank. The first of a lane's jobs with
// work is its holder: its turn is open, or it is next. The others wait, and one of them that goes
// before the holder of another lane belongs there. What is first is kept by lane, as of when the
// lane was touched last, with the rank of then. Part of the core; not thread-safe.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "lanes/state/checked_policy.h"
#include "lanes/state/core_state.h"
#include "lanes/turns/turn_control.h"

namespace laneway::lanes {

class LaneOrder {
 public:
  // All of them must outlive the object.
  LaneOrder(CoreState& core, const CheckedPolicy& policy, const TurnControl& turns);

  struct News {
    bool later_holder = false;  // than when it was looked at last: somebody may go before it
    bool other_waits = false;  // … or goes before more than then: it may belong into another lane
  };
  // Must be called when the lane's jobs, their work or its turn are other ones.
  News look(const Lane& lane);
  // Whether jobs of the lane have work.
  bool has_holder(LaneId lane) const { return firsts_[lane.value() - 1].holder.job != nullptr; }
  // Whether jobs of the lane wait for others' turns there.
  bool keeps_waiting(LaneId lane) const { return firsts_[lane.value() - 1].kept().job != nullptr; }
  // Whether the lane's region, which may be closed still, is large enough for the job, or could
  // grow.
  bool has_room_for(const policies::JobView& job, const Lane& lane) const;
  // The first of those that wait in one of these lanes and could come into `to`; with
  // `goes_before_own`, of the first of each lane those that go before the holder of `to`. Null:
  // there is none.
  const policies::JobView* first_for(LaneSet from, const Lane& to, bool goes_before_own) const;
  // The first of those that wait in the lane, and the lane that it should have: the one whose
  // holder is the last of those that it goes before. Null: it is in the right one.
  std::pair<const policies::JobView*, LaneId> misplaced(LaneId lane) const;

 private:
  // A job and its rank when its lane was looked at.
  struct Ranked {
    const policies::JobView* job = nullptr;
    policies::TurnRank rank;
    uint64_t arrival = 0;
    bool before(const Ranked& other) const {
      return rank < other.rank || (rank == other.rank && arrival < other.arrival);
    }
  };
  struct First {
    Ranked running;
    Ranked holder;
    Ranked waiting;  // the first of the others
    // Whether the holder's turn is not the one that is open, so that it would begin sooner in a
    // lane that has nothing to run.
    bool holder_waits() const { return running.job != nullptr && holder.job != running.job; }
    const Ranked& kept() const { return holder_waits() ? holder : waiting; }
    // Whom that one goes before in another lane must come behind this one: a holder that waits
    // displaces who runs in its own lane, if nobody that runs is later.
    const Ranked& bar() const { return holder_waits() ? running : waiting; }
  };
  Ranked ranked(const policies::JobView& job) const {
    return {&job, policy_.turn_rank(core_, job), job.arrival};
  }
  static void see(const Ranked& job, First& first);
  bool may_go(const policies::JobView& job, const Lane& to) const;
  // Of those that may, and that are not `but`.
  template <class May>
  Ranked first_that_waits(LaneId lane, const policies::JobView* but, const May& may) const;

  CoreState& core_;
  const CheckedPolicy& policy_;
  const TurnControl& turns_;
  std::vector<First> firsts_;  // by slot
};

}  // namespace laneway::lanes
