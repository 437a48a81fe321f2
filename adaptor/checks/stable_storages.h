// stable_storages: which storages of a graph hold the same in every iteration until somebody else
// writes the job's state: what a graph computes from constants, and slots that it does not write.
// What is in them is looked at once instead of in every iteration. A pure function over a graph
// that has passed graph_check.
#pragma once

#include <vector>

#include "lanes/graph/graph.h"

namespace laneway::adaptor {

// By storage. `draws`: by node, whether its result differs from call to call.
std::vector<bool> stable_storages(const lanes::Graph& graph, const std::vector<bool>& draws);

}  // namespace laneway::adaptor
