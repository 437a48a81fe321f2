// Turn: what a job is granted in a lane. Inside its envelope the worker goes on without asking the
// core: it runs up to `iterations` iterations or until `slice` has passed, whichever comes first,
// and ends the turn at an iteration boundary. With nothing left to run, a turn without any bound is
// kept until it is recalled (nobody else wants the lane); one with a bound is given back at once,
// because somebody does. Plain data, crosses from the core to the worker.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"

namespace laneway::lanes {

// 0 means no bound of this kind.
struct TurnBudget {
  uint64_t iterations = 0;
  Duration slice;
};

// Where in the pool a lane may allocate.
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

// Why a turn came to its end.
enum class TurnEnd : uint8_t {
  idle,         // recalled or given back with nothing left to run
  budget,       // used up, more work is ready
  out_of_lane,  // an iteration did not fit its lane and was abandoned before its commit phase
  failed,       // an iteration failed; the job goes no further
};

}  // namespace laneway::lanes
