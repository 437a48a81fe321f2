// stay_rule: from when on an image may leave the pool for somebody else, and which could at all.
// One rule for everything that moves. Pure.
//
// A switch is the way out of what leaves and the way in of what comes. What has nothing to run
// stays as long as the switch takes that its leaving would cause (as when to rent skis, and when to
// buy them: Karlin, Manasse, Rudolph and Sleator, "Competitive snoopy caching", Algorithmica 3,
// 1988), so an idle stretch costs at most twice what the best choice made with hindsight does. What
// has work stays for kBusyStay switches from when it was there on, so that moving takes at most one
// part in kBusyStay + 1 of the device's time. docs/design/residency.md has the proofs. The rule
// says when, the policy who; for a more urgent job there is no wait.
#pragma once

#include "base/time.h"
#include "lanes/state/core_state.h"
#include "lanes/state/room_trial.h"

namespace laneway::lanes {

// Moving takes at most a twentieth of the device's time.
inline constexpr int64_t kBusyStay = 19;
// Even where copies cost nothing, who has work is there for so long: a turn of the core's own.
inline constexpr Duration kLeastBusyStay = milliseconds(20);

struct Stay {
  TimePoint placed_at;  // its image is whole since then
  TimePoint used_at;    // its last iteration ended, or its image was placed
  Duration a_switch;
  bool idle = false;
};
TimePoint leaves_from(const Stay& stay);

// Nothing of it runs or waits to.
bool is_idle(const Job& job);
// Its image is in the pool, and nothing is being done with it.
bool could_leave(const Job& job, bool also_pinned = false);
// Its image is in the pool, whole: how long that took since it was admitted is learnt.
void learn_way_in(CoreState& core, const Job& job);
// How long its leaving for the wish takes: its way out, if no copy lies outside, and the way in.
Duration switch_time(const CoreState& core, const Job& leaves, const Wish& wish);

}  // namespace laneway::lanes
