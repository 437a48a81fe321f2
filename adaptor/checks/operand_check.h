// OperandCheck: checks the operands that torch's kernels trust (sizes, dtypes, lists, strides), so
// that a graph made by hand cannot make a kernel access memory outside of its tensors. The table of
// rules is in operand_check.cc; every listed operator without a rule checks its operands itself
// (tests/adaptor/operand_mutation_test.cc tries them all). One object per graph; thread-safe once
// made.
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
  // `is_static` tells for each value whether its declared strides are known to hold (inputs, slots,
  // their views). invalid_graph names node, operator, user line, operand, its property and the
  // required one.
  static Result<OperandCheck> make(const lanes::Graph& graph, const std::vector<bool>& is_static);

  // The nodes with operands that must be checked just before they run, in order.
  const std::vector<uint32_t>& checked_nodes() const { return checked_nodes_; }
  // The first node with a check that reads contents of tensors.
  std::optional<uint32_t> first_reader_of_contents() const;
  // ok when the operands that `node` is about to take are as required; `values` as Graph::values.
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
