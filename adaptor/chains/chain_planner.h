// ChainPlanner: finds the runs of elementwise nodes of a graph that an ElementwiseChain can execute
// together. A chain takes the place of its last node; its earlier nodes wait until then, which is
// only right while no node between reads or writes what the chain writes, or writes what it reads.
// Pure function of the graph.
#pragma once

#include <cstdint>
#include <vector>

#include "adaptor/chains/elementwise_chain.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

struct PlannedChain {
  std::vector<uint32_t> nodes;  // in order; the last is where the chain runs
  ElementwiseChain chain;
};

// Nothing for graphs that run with several threads where torch would split the work among them.
std::vector<PlannedChain> plan_chains(const lanes::Graph& graph);

}  // namespace laneway::adaptor
