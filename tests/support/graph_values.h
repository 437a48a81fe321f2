// What a graph computes, without an operator: each result and each write is a hash of the operator
// and of all that it reads, so that two orders of the same nodes are told apart as soon as one node
// reads something else. Operators over lists compute element by element.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "lanes/graph/graph.h"

namespace laneway::testing {

struct GraphValues {
  std::map<uint32_t, uint64_t> slots;  // by slot: its bytes at the end
  std::vector<uint64_t> outputs;
  friend bool operator==(const GraphValues&, const GraphValues&) = default;
};

// Requires: `graph` has passed check_graph.
GraphValues computed(const lanes::Graph& graph);

}  // namespace laneway::testing
