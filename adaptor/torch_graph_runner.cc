#include "adaptor/torch_graph_runner.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "adaptor/cpu_lane_allocator.h"
#include "adaptor/numeric_context.h"
#include "adaptor/result_check.h"
#include "lanes/graph/graph_facts.h"
#include "lanes/graph/graph_text.h"

namespace laneway::adaptor {
TorchGraphRunner::TorchGraphRunner(lanes::Graph graph, const JobParts& job)
    : graph_(std::move(graph)),
      device_(job.device),
      layout_(job.layout),
      image_(job.image),
      random_(job.random),
      values_(graph_.values.size()),
      is_static_(graph_.values.size(), false) {}

Result<std::unique_ptr<TorchGraphRunner>> TorchGraphRunner::load(lanes::Graph graph,
                                                                 const JobParts& job) {
  std::unique_ptr<TorchGraphRunner> runner(new TorchGraphRunner(std::move(graph), job));
  try {
    // Views alone are evaluated: the flags of whatever runs beside are left alone.
    const DispatchScope scope;
    if (Status made = runner->make_static_values(); !made) return made.error();
    if (Status resolved = runner->resolve_nodes(); !resolved) return resolved.error();
  } catch (const c10::Error& error) {
    return Error{
        ErrorCode::invalid_graph,
        "graph '" + runner->graph_.name + "' cannot be loaded: " + error.what_without_backtrace()};
  }
  if (Status found = runner->find_checks(); !found) return found.error();
  runner->find_chains();
  runner->find_last_uses();
  return runner;
}

Status TorchGraphRunner::make_static_values() {
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
    const Bytes offset = layout_.offset(storage.index);
    values_[index] = image_.view(value, static_cast<uint64_t>(offset.count()));
    is_static_[index] = true;
  }
  return {};
}

Status TorchGraphRunner::resolve_nodes() {
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
    const Result<bool> evaluated = evaluate_at_load(call.value(), index);
    if (!evaluated) return evaluated.error();
    if (evaluated.value()) continue;
    step.kind = StepKind::call;
    step.index = static_cast<uint32_t>(calls_.size());
    calls_.push_back(std::move(call).value());
  }
  return {};
}

Result<bool> TorchGraphRunner::evaluate_at_load(const OperatorCall& call, size_t index) {
  const lanes::Node& node = graph_.nodes[index];
  if (!call.is_view()) return false;
  bool all_static = true;
  for (const lanes::NamedArgument& given : node.arguments) {
    lanes::for_each_value(given.argument,
                          [&](lanes::ValueIndex v) { all_static &= is_static_[v]; });
  }
  if (!all_static) return false;
  call.run(values_, stack_);
  if (Status right = check_results(graph_, node, values_, {}); !right) {
    return lanes::node_error(graph_, index, right.error().message);
  }
  bool all_views = true;
  Status placed;
  lanes::for_each_result_value(node, [&](lanes::ValueIndex value) {
    all_views = all_views && values_[value].isTensor() && is_borrowed(values_[value].toTensor());
    if (all_views && placed) placed = check_borrowed(value);
  });
  if (!placed) return lanes::node_error(graph_, index, placed.error().message);
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

bool TorchGraphRunner::is_borrowed(const at::Tensor& tensor) const {
  if (image_.owns(tensor)) return true;
  return std::any_of(inputs_.begin(), inputs_.end(), [&](auto& in) { return in.owns(tensor); });
}

Status TorchGraphRunner::check_borrowed(lanes::ValueIndex value) const {
  const lanes::Value& declared = graph_.values[value];
  const lanes::Storage& storage = graph_.storages[declared.storage];
  const at::Tensor& tensor = values_[value].toTensor();
  const bool of_image = image_.owns(tensor);
  const bool right =
      of_image ? storage.kind == lanes::StorageKind::persistent
               : storage.kind == lanes::StorageKind::input && inputs_[storage.index].owns(tensor);
  if (!right) {
    return Error{ErrorCode::invalid_graph, "gave a view of memory that is not that of storage " +
                                               std::to_string(declared.storage) +
                                               ", on which the graph declares it"};
  }
  const int64_t base =
      of_image ? layout_.offset(storage.index).count() / lanes::dtype_bytes(declared.dtype) : 0;
  return check_place(tensor, declared, base);
}

// A result that the graph takes for new memory must not be the job's or the client's: writes to it
// are not announced as such.
Status TorchGraphRunner::check_is_new(const lanes::Node& node) const {
  lanes::ValueIndex shared = lanes::kNoValue;
  lanes::for_each_result_value(node, [&](lanes::ValueIndex value) {
    if (!values_[value].isTensor() || !values_[value].toTensor().defined()) return;
    const lanes::Storage* declared = lanes::storage_of(graph_, value);
    const bool ephemeral = declared != nullptr && declared->kind == lanes::StorageKind::ephemeral;
    if (ephemeral && is_borrowed(values_[value].toTensor())) shared = value;
  });
  if (shared == lanes::kNoValue) return {};
  return Error{ErrorCode::invalid_graph,
               "gave the memory of an argument, but the graph declares its result on storage " +
                   std::to_string(graph_.values[shared].storage) + ", which is new"};
}

// What is not known once and for all is looked at in every iteration; that may refuse, so it must
// not stand behind the first write.
Status TorchGraphRunner::find_checks() {
  Result<OperandCheck> operands = OperandCheck::make(graph_, is_static_);
  if (!operands) return operands.error();
  operand_check_.emplace(std::move(operands).value());
  for (const uint32_t node : operand_check_->checked_nodes()) steps_[node].check_operands = true;
  Result<IndexCheck> made = IndexCheck::make(graph_);
  if (!made) return made.error();
  index_check_.emplace(std::move(made).value());
  for (const uint32_t node : index_check_->checked_nodes()) steps_[node].check_indices = true;
  for (size_t node = 0; node < steps_.size(); ++node) {
    Step& step = steps_[node];
    if (step.kind != StepKind::call || !calls_[step.index].shape_depends_on_data()) continue;
    if (node >= graph_.first_write) {
      return lanes::node_error(graph_, node,
                               "the shape of its result depends on data, which must not be found "
                               "out after the first write to the job's memory: use masks of a "
                               "fixed shape, or compute it before the optimizer's step");
    }
    step.check_results = true;
  }
  return {};
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
      lanes::for_each_value(given.argument, [&](lanes::ValueIndex value) {
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
  if (Status in_range = index_check_->check_inputs(inputs); !in_range) return in_range;
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
    if (step.check_operands) [[unlikely]] {
      if (Status right = operand_check_->check_node(static_cast<uint32_t>(index), values_);
          !right) {
        fail(index, right.error().message);
        return lanes::NodeOutcome::failed;
      }
    }
    if (step.check_indices) [[unlikely]] {
      if (Status right = index_check_->check_node(static_cast<uint32_t>(index), values_); !right) {
        fail(index, right.error().message);
        return lanes::NodeOutcome::failed;
      }
    }
    if (step.kind == StepKind::scalar) {
      scalars_[step.index].run(values_);
    } else if (step.kind == StepKind::chain) {
      run_chain(step.index);
    } else {
      calls_[step.index].run(values_, stack_);
    }
    if (!verified_ || step.check_results) [[unlikely]] {
      Status right = check_results(graph_, graph_.nodes[index], values_, step.drops);
      if (right) right = check_is_new(graph_.nodes[index]);
      if (!right) {
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

Status TorchGraphRunner::finish(std::span<const lanes::OutputView> outputs) {
  Status copied;
  if (outputs.size() != graph_.outputs.size()) {
    copied = Error{ErrorCode::invalid_argument,
                   "graph '" + graph_.name + "' has " + std::to_string(graph_.outputs.size()) +
                       " outputs, room was given for " + std::to_string(outputs.size())};
  }
  for (size_t i = 0; i < graph_.outputs.size() && copied; ++i) {
    copied = copy_out(values_[graph_.outputs[i]], outputs[i]);
  }
  drop_values();
  verified_ = verified_ || copied.ok();
  return copied;
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
