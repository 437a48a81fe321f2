// Region: a contiguous piece of the pool for what iterations allocate, and the class that keeps
// where regions and images lie: PoolMap (lanes/pool_map.h). A region without an iteration running
// holds nothing that is alive, so between turns it may be resized and moved freely.
#pragma once

#include "base/bytes.h"
#include "base/ids.h"

namespace laneway::lanes {

struct Region {
  RegionId id;
  LaneId lane;  // regions of one lane; two-ended ones come with their own capability
  Bytes offset;
  Bytes size;
  ClaimId claim;
};

}  // namespace laneway::lanes
