// Actions: all that the core asks the worker and the edge to do, as plain data, in the order in
// which they must be carried out. Offsets and sizes are those of the ledger: the executor of an
// action must not add bytes.
#pragma once

#include <cstdint>
#include <variant>

#include "base/bytes.h"
#include "base/ids.h"
#include "lanes/reason.h"
#include "lanes/turn.h"

namespace laneway::lanes {

// The job has a lane and memory; its PlaceImage follows.
struct AdmitJob {
  JobId job;
  LaneId lane;
};
// The job waits. The core sends the action again whenever position or reason change.
struct QueueJob {
  JobId job;
  Reason reason;
};
// The job will never run (again), and the core forgets it. For a job that was admitted already (its
// need grew past the pool) DropImage follows.
struct RefuseJob {
  JobId job;
  Reason reason;
};
// Gives a job memory for its image. The executor must clear it, and answer with ImagePlaced. A core
// that takes over sends the action again when its report says that the image is not placed.
struct PlaceImage {
  JobId job;
  Bytes offset;
  Bytes size;
};
// The job is over: its image's memory is free once this action was carried out.
struct DropImage {
  JobId job;
};
struct OpenRegion {
  RegionId region;
  LaneId lane;
  Bytes offset;
  Bytes size;
};
// The region may get another offset too. Requires: no iteration of its lane runs, so nothing in the
// region is alive.
struct ResizeRegion {
  RegionId region;
  Bytes offset;
  Bytes size;
};
struct CloseRegion {
  RegionId region;
};
struct GrantTurn {
  Turn turn;
};
// Asks the lane to end this turn at the next iteration boundary and to report it (TurnEnded).
struct RecallTurn {
  TurnId turn;
  LaneId lane;
};

using Action = std::variant<AdmitJob, QueueJob, RefuseJob, PlaceImage, DropImage, OpenRegion,
                            ResizeRegion, CloseRegion, GrantTurn, RecallTurn>;

}  // namespace laneway::lanes
