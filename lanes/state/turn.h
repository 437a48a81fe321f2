// Turn: the grant of a lane to a job. Within it the worker runs iterations without asking the core:
// up to `iterations` iterations or until `slice` has passed, whichever comes first; it ends the
// turn at an iteration boundary. When no work is left, a turn without any bound stays open until it
// is recalled, because no other job wants the lane; a turn with a bound is given back, at once or
// when it has had nothing to run for as long as it may linger.
// Plain data that the core sends to the worker.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/limits.h"
#include "policies/turn_budget.h"

namespace laneway::lanes {

using policies::TurnBudget;

// Lanes as a number: bit n - 1 is lane n.
using LaneSet = uint64_t;
static_assert(limits::kMaxLanes <= 64, "a set of lanes is one word");
constexpr LaneSet set_of(LaneId lane) { return LaneSet{1} << (lane.value() - 1); }

// The range of the pool in which a lane may allocate, the turn's budget, and who is more urgent.
struct TurnEnvelope {
  RegionId region;
  Bytes base;     // offset of the region in the pool
  Bytes ceiling;  // bytes that the lane may use from there
  TurnBudget budget;
  // A turn with a bound that has had nothing to run for so long is given back.
  Duration lingers = Duration();
  // Of the turns that were open when this one was granted: the lanes of those that its iterations
  // may interrupt, and of those whose iterations may interrupt it. What holds between two open
  // turns is said by the later grant.
  LaneSet interrupts = 0;
  LaneSet yields_to = 0;
};

struct Turn {
  TurnId id;
  LaneId lane;
  JobId job;
  TurnEnvelope envelope;
};

// Why a turn ended.
enum class TurnEnd : uint8_t {
  idle,         // recalled or given back with nothing left to run
  budget,       // used up, more work is ready
  out_of_lane,  // an iteration did not fit its lane and was abandoned before its commit phase
  failed,       // an iteration failed; the job ends
};

}  // namespace laneway::lanes
