// The readable form of a graph, for people and for comparing two captures: output only, there is no
// reader. The same text for equal graphs. One line a node:
//
//   %7: float32[4, 3] @6 = aten::sub.Tensor(%6, %1)  writes %3  # train.py:3 in step
//
// %7 is a value, @6 the storage that it lies on (with "+2" for an offset of two elements and
// "strides [1, 4]" where it is not contiguous), "_" a result or tensor that is not there. Works on
// graphs that were not checked, so that a refused one can be looked at. Pure function.
#pragma once

#include <string>

#include "lanes/graph/graph.h"

namespace laneway::lanes {

std::string dump_graph(const Graph& graph);

}  // namespace laneway::lanes
