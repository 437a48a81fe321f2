// The names of a graph's parts in messages and dumps, in one place, so that both use the same.
// Control characters in a client's texts are replaced. Works on graphs that were not checked. Pure
// functions.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::lanes {

// `text` with each control character as '?'.
std::string printable(std::string_view text);
// "float32[4, 3]", "real", or "value 9 of 4" when there is none of this index.
std::string type_text(const Graph& graph, ValueIndex value);
// "value 7 float32[4, 3]".
std::string value_text(const Graph& graph, ValueIndex value);

// Error invalid_graph: "graph 'NAME': WHAT".
Error graph_error(const Graph& graph, const std::string& what);
// Error invalid_graph: "graph 'NAME', node 3 aten::mm (train.py:4 in step): WHAT".
Error node_error(const Graph& graph, size_t node, const std::string& what);

}  // namespace laneway::lanes
