// Actions: everything the core ever asks for, as plain data, in the order in which they must be
// carried out. Offsets and sizes are those of the ledger: whoever carries an action out adds no
// bytes of its own.
#pragma once

#include <cstdint>
#include <variant>

#include "base/bytes.h"
#include "base/ids.h"
#include "lanes/reason.h"
#include "lanes/turn.h"

namespace laneway::lanes {

// The job has a lane and memory; PlaceImage for it follows.
struct AdmitJob {
  JobId job;
  LaneId lane;
};
// The job waits; sent again whenever position or reason change.
struct QueueJob {
  JobId job;
  Reason reason;
};
// The job will never run (again); it is forgotten. One that was admitted already (its need grew
// past the pool) gets DropImage as well, afterwards.
struct RefuseJob {
  JobId job;
  Reason reason;
};
// Image memory for a job, cleared by whoever carries this out; answered by ImagePlaced. Sent again
// by a core that takes over from a report in which it is not placed.
struct PlaceImage {
  JobId job;
  Bytes offset;
  Bytes size;
};
// The job is over: its image's memory is free once this was carried out.
struct DropImage {
  JobId job;
};
struct OpenRegion {
  RegionId region;
  LaneId lane;
  Bytes offset;
  Bytes size;
};
// Only between iterations of its lane; the region may also have another offset afterwards
// (nothing in it is alive).
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
// End this turn at the next iteration boundary and report it (TurnEnded).
struct RecallTurn {
  TurnId turn;
  LaneId lane;
};

using Action = std::variant<AdmitJob, QueueJob, RefuseJob, PlaceImage, DropImage, OpenRegion,
                            ResizeRegion, CloseRegion, GrantTurn, RecallTurn>;

}  // namespace laneway::lanes
