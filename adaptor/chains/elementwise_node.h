// ElementwiseNode: a graph's node as a chain sees it: which arithmetic, on which values and
// numbers. Pure function of the graph.
#pragma once

#include <optional>

#include "adaptor/chains/elementwise_chain.h"
#include "adaptor/chains/elementwise_kernels.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

struct ElementwiseNode {
  std::optional<ElementwiseOp> op;  // none: square root
  lanes::ValueIndex a = lanes::kNoValue, b = lanes::kNoValue, c = lanes::kNoValue;
  ChainNumber s, t{.constant = 1};
  lanes::ValueIndex result = lanes::kNoValue;  // in place and unnamed: a
};

// Nothing for nodes of any other kind.
std::optional<ElementwiseNode> read_elementwise(const lanes::Graph& graph, const lanes::Node& node);

}  // namespace laneway::adaptor
