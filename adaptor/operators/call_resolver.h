// CallResolver: makes an OperatorCall of a node, and checks it against the operator's schema. One
// object per resolve(). Every refusal names the node, the operator, the argument and the user's
// line.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Device.h>

#include <string>

#include "adaptor/operators/operator_call.h"

namespace laneway::adaptor {

class CallResolver {
 public:
  CallResolver(const lanes::Graph& graph, size_t node_index, const at::Generator& generator,
               const ValueTable& values, const StaticValues& is_static, c10::Device device);

  Result<OperatorCall> resolve();

 private:
  using ListFill = OperatorCall::ListFill;

  Status find_operator();
  // Aligns the arguments with the schema: positional ones in schema order, then named ones, then
  // defaults.
  Status align_arguments();
  Status place(size_t position, const lanes::Argument& argument);
  Status place_value(size_t position, const c10::Type& type, lanes::ValueIndex value);
  Status place_list(size_t position, const c10::Type& type, const lanes::ListArgument& list);
  // Refuses forms of a call that a graph must not have, although its operator is listed.
  Status check_form() const;
  Status check_draws() const;
  // Refuses an operator without a kernel for the device, when that is not the CPU.
  Status check_kernel() const;
  Status check_writes() const;
  Status place_in_slot();
  Status take_results();
  Status check_alias(const c10::AliasInfo& alias, const lanes::NodeResult& result) const;
  // Whether an argument that is a value of the iteration decides the result's shape.
  bool shape_depends_on_data() const;

  bool known_now(lanes::ValueIndex value) const { return is_static_[value]; }
  Error refuse(const std::string& what) const;
  Error refuse_argument(size_t position, const std::string& what) const;

  const lanes::Graph& graph_;
  const size_t node_index_;
  const lanes::Node& node_;
  const at::Generator& generator_;
  const ValueTable& values_;
  const StaticValues& is_static_;
  const c10::Device device_;
  const c10::FunctionSchema* schema_ = nullptr;
  std::optional<OperatorCall> call_;
  std::vector<const lanes::Argument*> aligned_;  // by schema position; null where defaulted
};

}  // namespace laneway::adaptor
