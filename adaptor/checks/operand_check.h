// OperandCheck: operands that torch's kernels trust, held to what the kernels take them for (sizes,
// dtypes, lists, strides), so that a graph made by hand cannot make one reach beyond its tensors.
// The table of rules is in operand_check.cc; every listed operator that has none checks itself
// (tests/adaptor/operand_mutation_test.cc tries them all). Made once a graph; thread-safe to use.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "adaptor/checks/operands.h"
#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

class OperandCheck {
 public:
  // `is_static` says of each value whether its declared strides are its own (inputs, slots, their
  // views). invalid_graph names node, operator, user line, operand, what it has and must have.
  static Result<OperandCheck> make(const lanes::Graph& graph, const std::vector<bool>& is_static);

  // Nodes with operands of which not all is known before they run, in order.
  const std::vector<uint32_t>& checked_nodes() const { return checked_nodes_; }
  // The first node before which contents of tensors are looked at.
  std::optional<uint32_t> first_reader_of_contents() const;
  // ok when what `node` is about to take is what it needs; `values` as Graph::values.
  Status check_node(uint32_t node, const std::vector<c10::IValue>& values) const;

 private:
  struct NodeNeed {
    uint32_t node = 0;
    OperandNeed need;
  };

  std::vector<NodeNeed> needs_;  // by node
  std::vector<uint32_t> checked_nodes_;
};

}  // namespace laneway::adaptor
