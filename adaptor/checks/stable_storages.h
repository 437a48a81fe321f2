// stable_storages: finds the storages of a graph with the same contents in every iteration, until
// another writer changes the job's state: storages that the graph computes from constants, and
// slots that it does not write. Checks read their contents once instead of in every iteration. A
// pure function over a graph that has passed graph_check.
#pragma once

#include <vector>

#include "lanes/graph/graph.h"

namespace laneway::adaptor {

// The answer by storage. `draws` tells by node whether its result differs from call to call.
std::vector<bool> stable_storages(const lanes::Graph& graph, const std::vector<bool>& draws);

}  // namespace laneway::adaptor
