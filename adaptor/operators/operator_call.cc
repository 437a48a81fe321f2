#include "adaptor/operators/operator_call.h"

#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "adaptor/operators/call_resolver.h"

namespace laneway::adaptor {
namespace {

// A Python number in the place of a tensor: torch treats it as a wrapped number, whose dtype does
// not take part in type promotion as a tensor's would.
at::Tensor wrapped_number(const c10::IValue& number) {
  at::Tensor tensor = at::scalar_tensor(number.toScalar(), number.isInt()    ? at::kLong
                                                           : number.isBool() ? at::kBool
                                                                             : at::kDouble);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

// A constant for one job's calls alone. Lanes that run equal graphs at the same time would
// otherwise count references to one object, which costs more than the copy does once.
c10::IValue own(const c10::IValue& constant) {
  if (constant.isIntList() || constant.isDoubleList() || constant.isBoolList()) {
    return constant.deepcopy();
  }
  if (!constant.isTensor() || !constant.toTensor().defined()) return constant;
  const bool wrapped = constant.toTensor().unsafeGetTensorImpl()->is_wrapped_number();
  at::Tensor copy = constant.toTensor().clone();
  copy.unsafeGetTensorImpl()->set_wrapped_number(wrapped);
  return copy;
}

// Operators that compute in another way, with other bits, while gradients are recorded: one that
// autograd calls, without; and one whose last argument captures make to say it.
constexpr const char* kCalledByAutograd = "aten::cumprod_backward";
constexpr const char* kRecurrent = "aten::mkldnn_rnn_layer";
// Its kernel keeps the state of a generator, which only dropout reads, on the device while it is
// captured: a seed and an offset, before all its other tensors.
constexpr const char* kKeepsSeed = "aten::_scaled_dot_product_efficient_attention";

}  // namespace

void OperatorCall::find_gradient_mode() {
  const std::string& name = op_.operator_name().name;
  if (name == kCalledByAutograd) gradients_ = false;
  if (name == kRecurrent && template_.back().isBool()) gradients_ = template_.back().toBool();
}

void OperatorCall::find_allocations(c10::Device device) {
  allocates_more_recorded_ = !device.is_cpu() && op_.operator_name().name == kKeepsSeed;
}

std::array<at::Tensor, 2> OperatorCall::more_when_recorded(c10::Device device) const {
  const auto number = [device] {
    return at::empty({}, at::TensorOptions().dtype(at::kLong).device(device));
  };
  at::Tensor seed = number();
  return {std::move(seed), number()};
}

Result<OperatorCall> OperatorCall::resolve(const lanes::Graph& graph, size_t node_index,
                                           const at::Generator& generator, const ValueTable& values,
                                           const StaticValues& is_static, c10::Device device) {
  CallResolver resolver(graph, node_index, generator, values, is_static, device);
  Result<OperatorCall> call = resolver.resolve();
  if (call) {
    call.value().find_gradient_mode();
    call.value().find_allocations(device);
  }
  return call;
}

OperatorCall OperatorCall::unbound() const {
  OperatorCall call = *this;
  for (const StaticFill& fill : statics_) call.template_[fill.position] = c10::IValue();
  for (const ListFill& fill : static_lists_) call.template_[fill.position] = c10::IValue();
  for (uint32_t position = 0; position < call.template_.size(); ++position) {
    if (!call.template_[position].isGenerator()) continue;
    call.template_[position] = c10::IValue();
    call.generators_.push_back(position);
  }
  return call;
}

OperatorCall OperatorCall::bound(const at::Generator& generator, const ValueTable& values) const {
  OperatorCall call = *this;
  for (c10::IValue& constant : call.template_) constant = own(constant);
  for (const StaticFill& fill : statics_) call.template_[fill.position] = values[fill.value];
  for (const ListFill& fill : static_lists_) {
    call.template_[fill.position] = build_list(fill, values);
  }
  for (const uint32_t position : generators_) call.template_[position] = generator;
  if (offset_) call.fill_offset(*offset_, values);
  return call;
}

void OperatorCall::place_in_slot(int position, lanes::ValueIndex tensor, int64_t in_slot,
                                 const ValueTable& values) {
  offset_ = {.position = static_cast<uint32_t>(position),
             .value = tensor,
             .behind = template_[position].toInt() - in_slot};
  fill_offset(*offset_, values);
}

void OperatorCall::fill_offset(const OffsetFill& offset, const ValueTable& values) {
  template_[offset.position] = values[offset.value].toTensor().storage_offset() + offset.behind;
}

void OperatorCall::move_last_uses(const std::vector<bool>& last_use) {
  for (Fill& fill : fills_) {
    if (fill.wrap_number || !last_use[fill.value]) continue;
    size_t uses = 0;
    for (const Fill& other : fills_) uses += other.value == fill.value ? 1 : 0;
    for (const ListFill& list : list_fills_) {
      for (const lanes::ValueIndex value : list.values) uses += value == fill.value ? 1 : 0;
    }
    fill.move = uses == 1;
  }
}

c10::IValue OperatorCall::build_list(const ListFill& fill, const ValueTable& values) {
  const auto element = [&](size_t i) -> const c10::IValue& {
    return fill.values[i] == lanes::kNoValue ? fill.constants[i] : values[fill.values[i]];
  };
  const size_t count = fill.values.size();
  switch (fill.kind) {
    case ListFill::Kind::tensors: {
      c10::List<at::Tensor> list;
      list.reserve(count);
      for (size_t i = 0; i < count; ++i) list.push_back(element(i).toTensor());
      return list;
    }
    case ListFill::Kind::optional_tensors: {
      c10::List<std::optional<at::Tensor>> list;
      list.reserve(count);
      for (size_t i = 0; i < count; ++i) list.push_back(element(i).toOptional<at::Tensor>());
      return list;
    }
    case ListFill::Kind::integers: {
      c10::List<int64_t> list;
      list.reserve(count);
      for (size_t i = 0; i < count; ++i) list.push_back(element(i).toInt());
      return list;
    }
    case ListFill::Kind::numbers: {
      c10::List<at::Scalar> list;
      list.reserve(count);
      for (size_t i = 0; i < count; ++i) list.push_back(element(i).toScalar());
      return list;
    }
  }
  LW_CHECK(false, "unknown kind of list");
  return {};
}

void OperatorCall::run(ValueTable& values, torch::jit::Stack& stack) const {
  stack.insert(stack.end(), template_.begin(), template_.end());
  for (const Fill& fill : fills_) {
    if (fill.move) {
      stack[fill.position] = std::move(values[fill.value]);
    } else if (fill.wrap_number) {
      stack[fill.position] = wrapped_number(values[fill.value]);
    } else {
      stack[fill.position] = values[fill.value];
    }
  }
  for (const ListFill& fill : list_fills_) stack[fill.position] = build_list(fill, values);
  if (gradients_) [[unlikely]] {
    const c10::AutoGradMode mode(*gradients_);
    op_.callBoxed(&stack);
  } else {
    op_.callBoxed(&stack);
  }
  if (one_plain_result_) {
    if (single_result_ != lanes::kNoValue) values[single_result_] = std::move(stack.back());
    stack.clear();
    return;
  }
  store_results(values, stack);
}

void OperatorCall::store_results(ValueTable& values, torch::jit::Stack& stack) const {
  TORCH_CHECK(stack.size() == results_.size(), "the operator returned ", stack.size(),
              " results, the graph declares ", results_.size());
  for (size_t i = 0; i < results_.size(); ++i) {
    const Returned& returned = results_[i];
    if (!returned.is_list) {
      if (returned.values[0] != lanes::kNoValue) values[returned.values[0]] = std::move(stack[i]);
      continue;
    }
    const c10::List<at::Tensor> list = stack[i].toTensorList();
    TORCH_CHECK(list.size() == returned.values.size(), "the operator returned a list of ",
                list.size(), " tensors, the graph declares ", returned.values.size());
    for (size_t k = 0; k < list.size(); ++k) {
      if (returned.values[k] != lanes::kNoValue) values[returned.values[k]] = list.get(k);
    }
  }
  stack.clear();
}

}  // namespace laneway::adaptor
