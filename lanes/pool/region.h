// Region: a contiguous piece of the pool from which iterations allocate; PoolMap
// (lanes/pool/pool_map.h) keeps the places of regions and images. While no iteration runs, nothing
// in a region is alive, so between turns it may be resized and moved freely.
#pragma once

#include "base/bytes.h"
#include "base/ids.h"
#include "memory/free_list.h"

namespace laneway::lanes {

struct Region {
  RegionId id;
  LaneId lane;  // the region's only lane
  Bytes offset;
  Bytes size;
  ClaimId claim;

  memory::FreeList::Range range() const { return {offset.count(), size.count()}; }
};

}  // namespace laneway::lanes
