// Operators over lists ("aten::_foreach_add_.List", "aten::_fused_adam_") as one call per element:
// the same operator with lists of one, which computes the same bits. A pure function.
#pragma once

#include <cstdint>
#include <vector>

#include "lanes/graph/graph.h"

namespace laneway::lanes {

struct SplitLists {
  Graph graph;
  std::vector<uint32_t> node_was;  // by node of `graph`: which node of the other one it comes from
};

// Splits the nodes from the first write on. Whole stay those of other operators, with lists that
// differ in length, and in which one element's call would touch what another one's writes.
// Requires: the graph has passed check_graph.
SplitLists split_lists(const Graph& graph);

}  // namespace laneway::lanes
