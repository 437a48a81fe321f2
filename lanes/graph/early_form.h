// The early form of a training step: the same nodes, operators over lists split by element, with
// each parameter's update behind the last node that needs the parameter as it was or makes what the
// update reads. Its gradient dies there and not at the end of the iteration, so that less memory is
// alive beside the other gradients. Every node gets what it gets in the late form, the one that was
// captured, so the bits are equal. Its first write to the image is early: from there on nothing may
// refuse (lanes/run/executor.h). A pure function.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::lanes {

struct EarlyForm {
  Graph graph;
  // By graph_sizes' prediction: what both forms reach. `peak` is `late_peak` at most.
  Bytes late_peak, peak;
  uint32_t moved = 0;  // groups of nodes
};

// Requires: `graph` has passed check_graph, `alignment` is a power of two; `stays` says by node
// whether it must keep its place among others that do (it draws random numbers). Error unsupported
// where no update can come earlier and free memory by it: what keeps them, for the user.
Result<EarlyForm> early_form(const Graph& graph, const std::vector<bool>& stays, int64_t alignment);

}  // namespace laneway::lanes
