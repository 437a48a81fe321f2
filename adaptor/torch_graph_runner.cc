#include "adaptor/torch_graph_runner.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "adaptor/cpu_lane_allocator.h"
#include "adaptor/numeric_context.h"

namespace laneway::adaptor {
namespace {

// Calls `visit` for every value that an argument names, lists included.
template <class Visit>
void for_each_value(const lanes::Argument& argument, const Visit& visit) {
  if (const auto* value = std::get_if<lanes::ValueArgument>(&argument.content)) {
    visit(value->value);
  } else if (const auto* list = std::get_if<lanes::ListArgument>(&argument.content)) {
    for (const lanes::Argument& element : list->elements) for_each_value(element, visit);
  }
}

std::string sizes_text(c10::IntArrayRef sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  }
  return text + "]";
}

}  // namespace

TorchGraphRunner::TorchGraphRunner(lanes::Graph graph, RandomState& random)
    : graph_(std::move(graph)),
      random_(random),
      values_(graph_.values.size()),
      is_static_(graph_.values.size(), false) {}

Result<std::unique_ptr<TorchGraphRunner>> TorchGraphRunner::load(
    lanes::Graph graph, const pipeline::ImageLayout& layout, const BorrowedStorage& image,
    RandomState& random) {
  std::unique_ptr<TorchGraphRunner> runner(new TorchGraphRunner(std::move(graph), random));
  try {
    // Views alone are evaluated: the flags of whatever runs beside are left alone.
    const DispatchScope scope;
    if (Status made = runner->make_static_values(layout, image); !made) return made.error();
    if (Status resolved = runner->resolve_nodes(image); !resolved) return resolved.error();
  } catch (const c10::Error& error) {
    return Error{
        ErrorCode::invalid_graph,
        "graph '" + runner->graph_.name + "' cannot be loaded: " + error.what_without_backtrace()};
  }
  runner->find_chains();
  runner->find_last_uses();
  return runner;
}

Status TorchGraphRunner::make_static_values(const pipeline::ImageLayout& layout,
                                            const BorrowedStorage& image) {
  std::vector<bool> made_by_node(graph_.values.size(), false);
  for (const lanes::Node& node : graph_.nodes) {
    for (const lanes::NodeResult& result : node.results) {
      for (const lanes::ValueIndex value : result.values) {
        if (value != lanes::kNoValue) made_by_node[value] = true;
      }
    }
  }
  for (const lanes::ValueIndex input : graph_.inputs) {
    const lanes::Value& value = graph_.values[input];
    const bool tensor = value.kind == lanes::ValueKind::tensor;
    inputs_.emplace_back(tensor ? graph_.storages[value.storage].bytes : 0);
    if (!tensor) continue;
    values_[input] = inputs_.back().view(value, 0);
    is_static_[input] = true;
  }
  for (lanes::ValueIndex index = 0; index < graph_.values.size(); ++index) {
    const lanes::Value& value = graph_.values[index];
    if (value.kind != lanes::ValueKind::tensor || made_by_node[index]) continue;
    const lanes::Storage& storage = graph_.storages[value.storage];
    if (storage.kind != lanes::StorageKind::persistent) continue;
    const Bytes offset = layout.offset(storage.index);
    values_[index] = image.view(value, static_cast<uint64_t>(offset.count()));
    is_static_[index] = true;
  }
  return {};
}

Status TorchGraphRunner::resolve_nodes(const BorrowedStorage& image) {
  steps_.resize(graph_.nodes.size());
  for (size_t index = 0; index < graph_.nodes.size(); ++index) {
    const lanes::Node& node = graph_.nodes[index];
    Step& step = steps_[index];
    if (ScalarCall::handles(node)) {
      Result<ScalarCall> scalar = ScalarCall::resolve(graph_, index);
      if (!scalar) return scalar.error();
      step.kind = StepKind::scalar;
      step.index = static_cast<uint32_t>(scalars_.size());
      scalars_.push_back(std::move(scalar).value());
      continue;
    }
    Result<OperatorCall> call =
        OperatorCall::resolve(graph_, index, random_.generator(), values_, is_static_);
    if (!call) return call.error();
    draws_ = draws_ || call.value().is_random();
    if (evaluate_at_load(call.value(), node, image)) continue;
    step.kind = StepKind::call;
    step.index = static_cast<uint32_t>(calls_.size());
    calls_.push_back(std::move(call).value());
  }
  return {};
}

bool TorchGraphRunner::evaluate_at_load(const OperatorCall& call, const lanes::Node& node,
                                        const BorrowedStorage& image) {
  if (!call.is_view()) return false;
  bool all_static = true;
  for (const lanes::NamedArgument& given : node.arguments) {
    for_each_value(given.argument, [&](lanes::ValueIndex v) { all_static &= is_static_[v]; });
  }
  if (!all_static) return false;
  call.run(values_, stack_);
  bool all_views = true;
  const auto is_borrowed = [&](const at::Tensor& tensor) {
    if (image.owns(tensor)) return true;
    return std::any_of(inputs_.begin(), inputs_.end(), [&](auto& in) { return in.owns(tensor); });
  };
  for (const lanes::NodeResult& result : node.results) {
    for (const lanes::ValueIndex value : result.values) {
      if (value == lanes::kNoValue) continue;
      all_views = all_views && values_[value].isTensor() && is_borrowed(values_[value].toTensor());
    }
  }
  for (const lanes::NodeResult& result : node.results) {
    for (const lanes::ValueIndex value : result.values) {
      if (value == lanes::kNoValue) continue;
      if (all_views) {
        is_static_[value] = true;
      } else {
        values_[value] = c10::IValue();
      }
    }
  }
  return all_views;
}

void TorchGraphRunner::find_chains() {
  runs_at_.resize(graph_.nodes.size());
  for (uint32_t node = 0; node < runs_at_.size(); ++node) runs_at_[node] = node;
  for (PlannedChain& planned : plan_chains(graph_)) {
    Chain chain{std::move(planned), {}};
    const std::vector<uint32_t>& nodes = chain.planned.nodes;
    for (const uint32_t node : nodes) {
      chain.calls.push_back(steps_[node].index);
      steps_[node].kind = StepKind::done_elsewhere;
      runs_at_[node] = nodes.back();
    }
    steps_[nodes.back()].kind = StepKind::chain;
    steps_[nodes.back()].index = static_cast<uint32_t>(chains_.size());
    chains_.push_back(std::move(chain));
  }
}

void TorchGraphRunner::run_chain(uint32_t index) {
  Chain& chain = chains_[index];
  if (chain.planned.chain.run(values_)) return;
  for (const uint32_t call : chain.calls) calls_[call].run(values_, stack_);
}

void TorchGraphRunner::find_last_uses() {
  constexpr size_t kNever = SIZE_MAX;
  std::vector<size_t> last(graph_.values.size(), kNever);
  for (size_t index = 0; index < graph_.nodes.size(); ++index) {
    for (const lanes::NodeResult& result : graph_.nodes[index].results) {
      for (const lanes::ValueIndex value : result.values) {
        if (value != lanes::kNoValue) last[value] = runs_at_[index];
      }
    }
    for (const lanes::NamedArgument& given : graph_.nodes[index].arguments) {
      for_each_value(given.argument, [&](lanes::ValueIndex value) {
        if (last[value] == kNever || last[value] < runs_at_[index]) last[value] = runs_at_[index];
      });
    }
  }
  for (const lanes::ValueIndex output : graph_.outputs) last[output] = kNever;
  std::vector<std::vector<lanes::ValueIndex>> dying(graph_.nodes.size());
  for (lanes::ValueIndex value = 0; value < last.size(); ++value) {
    if (!is_static_[value]) dynamic_.push_back(value);
    if (last[value] != kNever && !is_static_[value]) dying[last[value]].push_back(value);
  }
  std::vector<bool> dies_here(graph_.values.size(), false);
  for (size_t index = 0; index < graph_.nodes.size(); ++index) {
    for (const lanes::ValueIndex value : dying[index]) dies_here[value] = true;
    Step& step = steps_[index];
    if (step.kind == StepKind::call) calls_[step.index].move_last_uses(dies_here);
    for (const lanes::ValueIndex value : dying[index]) dies_here[value] = false;
    step.drops = std::move(dying[index]);
  }
}

size_t TorchGraphRunner::live_node_count() const {
  return static_cast<size_t>(std::count_if(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.kind != StepKind::done_elsewhere;
  }));
}

Status TorchGraphRunner::begin(std::span<const lanes::InputView> inputs) {
  if (inputs.size() != graph_.inputs.size()) {
    return Error{ErrorCode::invalid_argument, "graph '" + graph_.name + "' takes " +
                                                  std::to_string(graph_.inputs.size()) +
                                                  " inputs, got " + std::to_string(inputs.size())};
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const lanes::Value& value = graph_.values[graph_.inputs[i]];
    if (value.kind == lanes::ValueKind::tensor && inputs[i].bytes != inputs_[i].bytes()) {
      return Error{ErrorCode::invalid_argument,
                   "input " + std::to_string(i) + " of graph '" + graph_.name + "' has " +
                       std::to_string(inputs[i].bytes) + " bytes, the graph was captured with " +
                       std::to_string(inputs_[i].bytes()) + "; capture again for this shape"};
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const lanes::ValueIndex index = graph_.inputs[i];
    switch (graph_.values[index].kind) {
      case lanes::ValueKind::tensor: inputs_[i].rebind(const_cast<void*>(inputs[i].data)); break;
      case lanes::ValueKind::real: values_[index] = inputs[i].real; break;
      case lanes::ValueKind::integer: values_[index] = inputs[i].integer; break;
      case lanes::ValueKind::boolean: values_[index] = inputs[i].integer != 0; break;
    }
  }
  if (draws_) random_.mark();
  return {};
}

lanes::NodeOutcome TorchGraphRunner::run_node(size_t index) {
  const Step& step = steps_[index];
  if (step.kind == StepKind::done_elsewhere) return lanes::NodeOutcome::done;
  try {
    if (step.kind == StepKind::scalar) {
      scalars_[step.index].run(values_);
    } else if (step.kind == StepKind::chain) {
      run_chain(step.index);
    } else {
      calls_[step.index].run(values_, stack_);
    }
    if (!verified_) [[unlikely]] {
      if (Status right = check_results(index); !right) {
        fail(index, right.error().message);
        return lanes::NodeOutcome::failed;
      }
    }
    for (const lanes::ValueIndex value : step.drops) values_[value] = c10::IValue();
    return lanes::NodeOutcome::done;
  } catch (const OutOfLane&) {
    stack_.clear();
    return lanes::NodeOutcome::out_of_lane;
  } catch (const c10::Error& error) {
    fail(index, error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail(index, error.what());
  }
  stack_.clear();
  return lanes::NodeOutcome::failed;
}

Status TorchGraphRunner::check_results(size_t index) const {
  const std::vector<lanes::ValueIndex>& unused = steps_[index].drops;
  for (const lanes::NodeResult& result : graph_.nodes[index].results) {
    for (const lanes::ValueIndex value : result.values) {
      if (value == lanes::kNoValue || !values_[value].isTensor()) continue;
      const at::Tensor& tensor = values_[value].toTensor();
      const lanes::Value& declared = graph_.values[value];
      if (!tensor.defined()) {
        // Operators leave out what they were told not to compute.
        if (std::find(unused.begin(), unused.end(), value) != unused.end()) continue;
        return Error{ErrorCode::invalid_graph, "gave nothing for a result that the graph uses"};
      }
      if (tensor.scalar_type() != scalar_type(declared.dtype) ||
          tensor.sizes() != c10::IntArrayRef(declared.sizes)) {
        return Error{ErrorCode::invalid_graph,
                     std::string("gave ") + c10::toString(tensor.scalar_type()) +
                         sizes_text(tensor.sizes()) + ", the graph declares " +
                         lanes::dtype_name(declared.dtype) + sizes_text(declared.sizes)};
      }
    }
  }
  return {};
}

Status TorchGraphRunner::finish(std::span<const lanes::OutputView> outputs) {
  Status copied;
  if (outputs.size() != graph_.outputs.size()) {
    copied = Error{ErrorCode::invalid_argument,
                   "graph '" + graph_.name + "' has " + std::to_string(graph_.outputs.size()) +
                       " outputs, room was given for " + std::to_string(outputs.size())};
  }
  for (size_t i = 0; i < graph_.outputs.size() && copied; ++i) {
    copied = copy_out(graph_.outputs[i], outputs[i]);
  }
  drop_values();
  verified_ = verified_ || copied.ok();
  return copied;
}

Status TorchGraphRunner::copy_out(lanes::ValueIndex value, const lanes::OutputView& output) const {
  const c10::IValue& content = values_[value];
  if (!content.isTensor()) {
    if (output.bytes != 8) {
      return Error{ErrorCode::invalid_argument,
                   "a number takes 8 bytes, room was given for " + std::to_string(output.bytes)};
    }
    if (content.isInt() || content.isBool()) {
      *static_cast<int64_t*>(output.data) = content.toScalar().toLong();
    } else {
      *static_cast<double*>(output.data) = content.toScalar().toDouble();
    }
    return {};
  }
  const at::Tensor& tensor = content.toTensor();
  if (output.bytes != tensor.nbytes()) {
    return Error{ErrorCode::invalid_argument, "an output has " + std::to_string(tensor.nbytes()) +
                                                  " bytes, room was given for " +
                                                  std::to_string(output.bytes)};
  }
  if (output.bytes == 0) return {};
  try {
    if (tensor.is_contiguous()) {
      std::memcpy(output.data, tensor.const_data_ptr(), output.bytes);
    } else {
      contiguous_view(output.data, tensor.sizes(), tensor.scalar_type()).copy_(tensor);
    }
    return {};
  } catch (const std::exception& error) {
    return Error{ErrorCode::failed, std::string("an output cannot be copied out: ") + error.what()};
  }
}

void TorchGraphRunner::abandon() {
  stack_.clear();
  drop_values();
  if (draws_) random_.rewind();
}

void TorchGraphRunner::drop_values() {
  for (const lanes::ValueIndex value : dynamic_) values_[value] = c10::IValue();
  for (BorrowedStorage& input : inputs_) input.rebind(nullptr);
}

void TorchGraphRunner::fail(size_t index, const std::string& what) {
  const lanes::Node& node = graph_.nodes[index];
  last_error_.code = ErrorCode::failed;
  last_error_.message = "graph '" + graph_.name + "', node " + std::to_string(index) + " (" +
                        node.op + "): " + what +
                        (node.source.empty() ? "" : "; from " + node.source);
}

}  // namespace laneway::adaptor
