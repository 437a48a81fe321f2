// OperatorCall: one node of a graph, resolved against torch's dispatcher. All arguments that are
// the same in every iteration (constants, defaults, persistent tensors and their views) are in a
// stack template; run() copies the template, fills in the values of this iteration, and calls the
// kernel boxed. A value that is not used later moves into the call, so its memory is free as soon
// as the kernel is done.
//
// resolve() is the schema check: the operator is on the list, each argument has the schema's type,
// none is missing, the results are as many as the schema returns, and the node's declared writes
// are exactly those that the schema declares. Jobs with equal graphs resolve once: unbound() is a
// call without the tensors and the generator of its job, bound() one with another job's. One thread
// at a time; several may use const functions.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

// The values of an iteration, indexed like Graph::values.
using ValueTable = std::vector<c10::IValue>;

// By value: whether it is the same tensor object in every iteration (persistent, inputs, views of
// those).
using StaticValues = std::vector<bool>;

class OperatorCall {
 public:
  // Resolves a node. `values` holds the static values. New tensors lie on `device`. invalid_graph
  // names node, operator, argument and user line, also when the operator has no kernel for
  // `device`.
  static Result<OperatorCall> resolve(const lanes::Graph& graph, size_t node_index,
                                      const at::Generator& generator, const ValueTable& values,
                                      const StaticValues& is_static,
                                      c10::Device device = c10::DeviceType::CPU);

  // The call without anything of its job's. It must not run; bound() makes calls of it.
  OperatorCall unbound() const;
  // The call of another job whose graph is equal. `values` has that job's static values, those that
  // this call takes among them. Requires: this call is unbound.
  OperatorCall bound(const at::Generator& generator, const ValueTable& values) const;

  // Moves into the call the values v with `last_use[v]`: no later node uses them, and they are no
  // outputs.
  void move_last_uses(const std::vector<bool>& last_use);

  // Runs the node: reads its arguments from `values`, writes its results there. Throws what the
  // kernel throws. `stack` is scratch memory; it must be empty, and is empty afterwards.
  void run(ValueTable& values, torch::jit::Stack& stack) const;

  // While its device records, the operator makes tensors on the device that it otherwise makes on
  // the CPU: it allocates more of the lane than in an iteration that runs node by node.
  bool allocates_more_recorded() const { return allocates_more_recorded_; }
  // Tensors like those. Kept until run() has returned, they make both iterations allocate alike.
  std::array<at::Tensor, 2> more_when_recorded(c10::Device device) const;

  bool is_view() const { return is_view_; }
  bool is_random() const { return is_random_; }
  // Whether arguments of equal shapes may give results of other shapes: with masks, counts, or
  // sizes that are numbers of the iteration.
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
    std::vector<c10::IValue> constants;     // one per element; unused where `values` has one
    std::vector<lanes::ValueIndex> values;  // kNoValue: take the constant
  };
  struct Returned {
    bool is_list = false;
    std::vector<lanes::ValueIndex> values;
  };
  // Stack position `position` is a static value.
  struct StaticFill {
    uint32_t position = 0;
    lanes::ValueIndex value = 0;
  };
  // Stack position `position` is an offset within the storage of a static tensor: `behind` elements
  // behind that tensor's own.
  struct OffsetFill {
    uint32_t position = 0;
    lanes::ValueIndex value = 0;
    int64_t behind = 0;
  };

  friend class CallResolver;
  explicit OperatorCall(c10::OperatorHandle op) : op_(std::move(op)) {}

  // The offset at `position` counts from a tensor's slot, which `in_slot` elements are before it.
  void place_in_slot(int position, lanes::ValueIndex tensor, int64_t in_slot,
                     const ValueTable& values);
  void fill_offset(const OffsetFill& offset, const ValueTable& values);
  void find_gradient_mode();
  void find_allocations(c10::Device device);

  static c10::IValue build_list(const ListFill& fill, const ValueTable& values);
  void store_results(ValueTable& values, torch::jit::Stack& stack) const;

  c10::OperatorHandle op_;
  std::optional<bool> gradients_;  // the gradient mode while it runs; unset: unchanged
  std::vector<c10::IValue> template_;
  // The positions of the template that are one job's.
  std::vector<StaticFill> statics_;
  std::vector<ListFill> static_lists_;
  std::vector<uint32_t> generators_;  // known to an unbound call
  std::optional<OffsetFill> offset_;
  std::vector<Fill> fills_;
  std::vector<ListFill> list_fills_;
  std::vector<Returned> results_;
  lanes::ValueIndex single_result_ = lanes::kNoValue;  // set when there is one plain result
  bool one_plain_result_ = false;
  bool is_view_ = false;
  bool is_random_ = false;
  bool shape_depends_on_data_ = false;
  bool allocates_more_recorded_ = false;
};

}  // namespace laneway::adaptor
