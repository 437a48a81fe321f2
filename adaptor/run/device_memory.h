// device_memory: the memory that an iteration on a device other than the host needs in its lane
// beside its nodes' values: its inputs lie there too, and outputs that are not dense get dense
// copies before they leave. Pure functions.
#pragma once

#include "adaptor/run/placement.h"
#include "lanes/graph/graph.h"
#include "lanes/graph/graph_sizes.h"

namespace laneway::adaptor {

// Returns `memory`, the prediction from the capture's sizes, with the graph's inputs (allocated
// before the first node, freed at the end) and the dense copies of its outputs.
lanes::GraphMemory with_transfers(lanes::GraphMemory memory, const lanes::Graph& graph,
                                  const Placement& placement, int64_t alignment);

}  // namespace laneway::adaptor
