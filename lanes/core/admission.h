// Admission: admits waiting jobs. The policy chooses the job and the lane; Admission checks the
// answer against the ledger, the free list and the number of lanes, and carries it out completely
// or not at all. Part of the core; not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "lanes/core/exchange.h"
#include "lanes/core/region_control.h"
#include "lanes/images/eviction.h"
#include "lanes/images/image_moves.h"
#include "lanes/state/checked_policy.h"
#include "lanes/state/core_state.h"
#include "lanes/turns/lane_changes.h"
#include "lanes/turns/turn_control.h"

namespace laneway::lanes {

class Admission {
 public:
  // All arguments must outlive the object.
  Admission(CoreState& core, CheckedPolicy& policy, TurnControl& turns, RegionControl& regions,
            ImageMoves& moves, Eviction& eviction, LaneChanges& changes, Exchange& exchange)
      : core_(core),
        policy_(policy),
        turns_(turns),
        regions_(regions),
        moves_(moves),
        eviction_(eviction),
        changes_(changes),
        exchange_(exchange) {}

  // Admits jobs as long as the policy names one and there is room. Lanes become one, and
  // images move or leave, for one that finds none.
  void admit_waiting();
  // Emits QueueJob for every waiting job with another reason than it was told; costs nothing for
  // those about whom nothing changed.
  void tell_queue();

 private:
  // It was tried, and waits for that reason until memory changes.
  void put_off(Job& job, ReasonCode code);
  // Whether images leave, or its own left, for one that goes before it and still waits. A policy
  // that fills gaps would let it into what they give up, and it would have to leave again.
  bool is_room_of_others(const Job& job) const;
  // Returns ReasonCode::none when the job is admitted, else why not.
  ReasonCode try_admit(Job& job, const policies::AdmitDecision& decision);
  // Only if all jobs can change places then.
  ReasonCode try_admit_with_home(Job& job, const policies::AdmitDecision& decision);
  // Whether others could change places beside the job, which was placed, as far as the pool's map
  // is concerned.
  bool may_stay(const Job& job, const Lane& lane);
  ReasonCode admit_to_new_lane(Job& job, LaneId lane);
  // Where an image may be placed, by preference: around what stayed of it; at its former place,
  // because what was recorded for its addresses holds; elsewhere, where what stayed is copied to;
  // anywhere, and what stayed is given up.
  enum class Way : uint8_t { grown, former, moved, anew };
  static constexpr std::array kWays{Way::grown, Way::former, Way::moved, Way::anew};
  Room place(Job& job, Way way);
  // The image placed, and a region as large as the job needs: a new one where the lane is closed.
  // Where there is no room nothing has changed.
  Room enter_as(Job& job, Region& region, Way way);
  Room enter(Job& job, Region& region);
  // `asked`: set where the lane's turn was asked to end, which is all that is missing.
  ReasonCode admit_to_lane(Job& job, Lane& lane, bool* asked);
  // Tries in this order: the lane with the fewest jobs among those with a region that is large
  // enough; a lane that can grow now; a lane that could grow between two turns (its turn is
  // recalled and the job waits).
  // Of lanes beyond the limit (lane_limit.h) only if no other will do.
  ReasonCode admit_to_some_lane(Job& job);
  // Of these, those that are closed do not count.
  ReasonCode admit_to_one_of(LaneSet lanes, Job& job, bool* asked);
  bool may_enter(const Job& job, LaneId lane) const;
  // A lane that is closed; none when all are open.
  LaneId closed_lane() const;
  // What stayed of the image may have been given up to place it.
  void admit(const Job& job, const Lane& lane, const ImagePrefix& stayed);
  void enter_lane(Job& job, Lane& lane);

  CoreState& core_;
  CheckedPolicy& policy_;
  TurnControl& turns_;
  RegionControl& regions_;
  ImageMoves& moves_;
  Eviction& eviction_;
  LaneChanges& changes_;
  Exchange& exchange_;
  // Of the job that is tried: whether it may enter a lane of others; and whether it was turned away
  // from a place where there was room, because others could not change places beside it.
  bool may_share_ = true;
  bool breaks_exchange_ = false;
  ImagePrefix comes_with_;  // what stayed of its image, as far as the place that was found uses it
};

}  // namespace laneway::lanes
