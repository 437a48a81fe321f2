// ScalarCall: a node over Python numbers ("scalar::pow"), or one that reads a number out of a 0-dim
// tensor (aten::_local_scalar_dense), evaluated by this class instead of the dispatcher: optimizers
// compute their bias corrections this way, and the result must equal Python's to the last bit.
// Integers stay integers under add, sub, mul and neg, as in Python (a result beyond 64 bits fails
// the node); all other results are doubles, and divisions by zero follow IEEE 754.
#pragma once

#include <string>
#include <vector>

#include "adaptor/operators/operator_call.h"
#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

class ScalarCall {
 public:
  // Whether this class evaluates the node.
  static bool handles(const lanes::Node& node);
  // Resolves a node. invalid_graph names node, operator and the fault.
  static Result<ScalarCall> resolve(const lanes::Graph& graph, size_t node_index);

  void run(ValueTable& values) const;
  // Whether it reads a number out of a tensor.
  bool reads_tensor() const { return operation_ == Operation::read; }

 private:
  enum class Operation : uint8_t { read, add, sub, mul, div, pow, min, max, neg, sqrt };

  // A value of the iteration, or a constant when `value` is kNoValue.
  struct Operand {
    c10::IValue constant;
    lanes::ValueIndex value = lanes::kNoValue;
  };

  const c10::IValue& operand(const ValueTable& values, size_t i) const {
    return operands_[i].value == lanes::kNoValue ? operands_[i].constant
                                                 : values[operands_[i].value];
  }

  Operation operation_ = Operation::read;
  std::vector<Operand> operands_;
  lanes::ValueIndex result_ = lanes::kNoValue;
};

}  // namespace laneway::adaptor
