// OperatorCall: one node of a graph, resolved against torch's dispatcher. Everything that does not
// change from iteration to iteration (constants, defaults, persistent tensors and their views)
// stands ready in a stack template; running it copies the template, fills in the values of this
// iteration, and calls the kernel boxed. A value whose last use this is moves into the call, so its
// memory is free as soon as the kernel is done.
//
// resolve() is the schema check: the operator is on the list, each argument has the schema's type,
// none is missing, the results are as many as the schema returns, and the node's declared writes
// are exactly those that the schema declares. One thread at a time.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

// The values of an iteration, indexed like Graph::values.
using ValueTable = std::vector<c10::IValue>;

// Which values are the same tensor object in every iteration (persistent, inputs, views of those).
using StaticValues = std::vector<bool>;

class OperatorCall {
 public:
  // invalid_graph names node, operator, argument and user line. `values` holds the static values.
  // What it makes anew lies on `device`, for which it has a kernel.
  static Result<OperatorCall> resolve(const lanes::Graph& graph, size_t node_index,
                                      const at::Generator& generator, const ValueTable& values,
                                      const StaticValues& is_static,
                                      c10::Device device = c10::DeviceType::CPU);

  // `last_use[v]` says whether value v is used by no later node and is no output.
  void move_last_uses(const std::vector<bool>& last_use);

  // Runs the node: reads its arguments from `values`, writes its results there. Throws what the
  // kernel throws. `stack` is scratch, empty before and after.
  void run(ValueTable& values, torch::jit::Stack& stack) const;

  bool is_view() const { return is_view_; }
  bool is_random() const { return is_random_; }
  // Whether equal arguments' shapes may give results of other shapes: masks, counts, sizes that
  // are numbers of the iteration.
  bool shape_depends_on_data() const { return shape_depends_on_data_; }

 private:
  // A value of this iteration goes to stack position `position`.
  struct Fill {
    uint32_t position = 0;
    lanes::ValueIndex value = 0;
    bool wrap_number = false;  // a number where the schema has a tensor
    bool move = false;
  };
  // A list with values of this iteration is built for stack position `position`.
  struct ListFill {
    enum class Kind : uint8_t { tensors, optional_tensors, integers, numbers };
    uint32_t position = 0;
    Kind kind = Kind::tensors;
    std::vector<c10::IValue> constants;     // one an element; unused where a value stands
    std::vector<lanes::ValueIndex> values;  // kNoValue: take the constant
  };
  struct Returned {
    bool is_list = false;
    std::vector<lanes::ValueIndex> values;
  };

  friend class CallResolver;
  explicit OperatorCall(c10::OperatorHandle op) : op_(std::move(op)) {}

  void find_gradient_mode();

  static c10::IValue build_list(const ListFill& fill, const ValueTable& values);
  void store_results(ValueTable& values, torch::jit::Stack& stack) const;

  c10::OperatorHandle op_;
  std::optional<bool> gradients_;  // whether they are recorded while it runs; unset: as they are
  std::vector<c10::IValue> template_;
  std::vector<Fill> fills_;
  std::vector<ListFill> list_fills_;
  std::vector<Returned> results_;
  lanes::ValueIndex single_result_ = lanes::kNoValue;  // when there is one plain result
  bool one_plain_result_ = false;
  bool is_view_ = false;
  bool is_random_ = false;
  bool shape_depends_on_data_ = false;
};

}  // namespace laneway::adaptor
