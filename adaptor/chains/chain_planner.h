// ChainPlanner: finds the runs of elementwise nodes of a graph that an ElementwiseChain can execute
// together. A chain takes the place of its last node; its earlier nodes run later than in the
// graph. That is correct only while no node between reads or writes what the chain writes, or
// writes what the chain reads. Pure function of the graph.
#pragma once

#include <cstdint>
#include <vector>

#include "adaptor/chains/elementwise_chain.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

struct PlannedChain {
  std::vector<uint32_t> nodes;  // in order; the chain runs in place of the last
  ElementwiseChain chain;
};

// The chains of a graph. A node that torch would split among several threads is in none.
std::vector<PlannedChain> plan_chains(const lanes::Graph& graph);

}  // namespace laneway::adaptor
