// ElementwiseNode: a graph's node as a chain sees it: its arithmetic, its values and its numbers.
// Pure function of the graph.
#pragma once

#include <optional>

#include "adaptor/chains/elementwise_chain.h"
#include "adaptor/chains/elementwise_kernels.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

struct ElementwiseNode {
  std::optional<ElementwiseOp> op;  // none: a square root
  lanes::ValueIndex a = lanes::kNoValue, b = lanes::kNoValue, c = lanes::kNoValue;
  ChainNumber s, t{.constant = 1};
  lanes::ValueIndex result = lanes::kNoValue;  // `a` for a node in place without a result
};

// The node as elementwise arithmetic; nothing for other nodes.
std::optional<ElementwiseNode> read_elementwise(const lanes::Graph& graph, const lanes::Node& node);

}  // namespace laneway::adaptor
