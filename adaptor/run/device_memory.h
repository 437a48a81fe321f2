// device_memory: what an iteration needs of its lane on a device that is not the host beyond what
// its nodes make: its inputs lie in the lane's memory too, and outputs that are not dense are made
// so before they leave. Pure functions.
#pragma once

#include "adaptor/run/placement.h"
#include "lanes/graph/graph.h"
#include "lanes/graph/graph_sizes.h"

namespace laneway::adaptor {

// The graph's inputs, allocated before the first node and freed at the end, and its outputs' dense
// copies, added to what capture's sizes predict.
lanes::GraphMemory with_transfers(lanes::GraphMemory memory, const lanes::Graph& graph,
                                  const Placement& placement, int64_t alignment);

}  // namespace laneway::adaptor
