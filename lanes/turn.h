// Turn: the grant of a lane to a job. Within it the worker runs iterations without asking the core:
// up to `iterations` iterations or until `slice` has passed, whichever comes first; it ends the
// turn at an iteration boundary. When no work is left, a turn without any bound stays open until it
// is recalled, because no other job wants the lane; a turn with a bound is given back at once.
// Plain data that the core sends to the worker.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "policies/turn_budget.h"

namespace laneway::lanes {

using policies::TurnBudget;

// The range of the pool in which a lane may allocate, and the turn's budget.
struct TurnEnvelope {
  RegionId region;
  Bytes base;     // offset of the region in the pool
  Bytes ceiling;  // bytes that the lane may use from there
  TurnBudget budget;
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
