// The gate: one pure function that decides whether a lane may start its next iteration, or go on
// past an allocation, or enter the commit phase, without breaking the safety condition (a region's
// lanes never overlap, and an iteration in its commit phase never runs out). Broker, worker and
// simulator link the same function; the caller acts on the outcome and asks again when what it
// waited for has changed. Thread-safe (no state).
//
// A lane in a region of its own is bounded by the region's size. In a region of two lanes, one
// grows from each end, and the one whose iteration started later (the younger) yields:
//
//     height of the younger + what the elder can still reach <= region
//
// before each of its allocations. The elder never waits for the younger, so one of the two can
// always finish: no deadlock. The sum stays within the region because what the elder can still
// reach only falls while it runs, and because an iteration starts as the younger at height zero.
// Offsets in a shared region come from plans only: an allocation off the plan stops before it
// happens until the partner has drained; a younger one that waits for a partner which is itself
// draining gives way by abandoning, so these waits end as well.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace laneway::lanes {

enum class GateOutcome : uint8_t {
  go,
  wait_partner,    // ask again when the partner's reach has fallen, or it drains or ends
  grow,            // what this lane needs is over the region: abandon, have it grown, run again
  off_tape_drain,  // off the plan beside a partner: hold until the partner has drained, ask again
  give_way,        // the partner drains and waits for this lane: abandon, run again later
  fail,            // off the plan inside the commit phase beside a partner: a fault of determinism
};

enum class GatePoint : uint8_t {
  iteration_start,  // nothing allocated yet
  allocation,       // before an allocation that raises the height
  commit_phase,     // before the first persistent write: all of the rest must fit
};

// The lane that asks. Heights count from the lane's own end of the region.
struct GateLane {
  Bytes height;            // at an allocation: with it; at the commit phase: now
  Bytes reach;             // highest that this iteration can still reach: the suffix maximum of its
                           // plan, or an estimate while there is no plan
  bool on_plan = true;     // the next allocation has an offset in a verified plan
  bool in_commit = false;  // entered its commit phase
};

// The lane at the other end. The default is a region of one lane.
struct GatePartner {
  bool running = false;   // an iteration of it holds memory, or is about to
  bool elder = false;     // that iteration started before the asking lane's
  bool draining = false;  // it is off its plan: it holds until this lane has drained, or runs alone
  Bytes reach;            // highest that it can still reach
};

// `region` is the size of the whole region for two lanes, the lane's ceiling for one.
GateOutcome gate(GatePoint point, Bytes region, const GateLane& lane, const GatePartner& partner);

}  // namespace laneway::lanes
