// The runner's half that makes one: everything that is found out once, when a graph is loaded.
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "adaptor/checks/result_check.h"
#include "adaptor/checks/stable_storages.h"
#include "adaptor/run/torch_graph_runner.h"
#include "adaptor/scope/numeric_context.h"
#include "lanes/graph/graph_facts.h"
#include "lanes/graph/graph_text.h"

namespace laneway::adaptor {
namespace {

Placement place(const lanes::Graph& graph, const StateMirror& mirror) {
  return Placement::of(graph, [&](uint32_t slot) { return mirror.has(slot); });
}

}  // namespace

TorchGraphRunner::TorchGraphRunner(lanes::Graph graph, const JobParts& job)
    : graph_(std::move(graph)),
      device_(job.device),
      on_device_(!job.device.is_host()),
      layout_(job.layout),
      image_(job.image),
      random_(job.random),
      mirror_(job.mirror),
      placement_(on_device_ ? place(graph_, *job.mirror) : Placement()),
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
  runner->strided_ = strided_storages(runner->graph_);
  runner->find_chains();  // before last uses, which follow where nodes really run
  runner->find_last_uses();
  runner->find_mirror_writes();
  runner->find_replay();
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
    const bool on_host = tensor && placement_.value_on_host(graph_, input);
    inputs_.emplace_back(tensor ? graph_.storages[value.storage].bytes : 0,
                         on_host ? c10::Device(c10::DeviceType::CPU) : device_.device());
    if (!tensor) continue;
    values_[input] = inputs_.back().view(value, 0);
    is_static_[input] = true;
  }
  for (lanes::ValueIndex index = 0; index < graph_.values.size(); ++index) {
    const lanes::Value& value = graph_.values[index];
    if (value.kind != lanes::ValueKind::tensor || made_by_node[index]) continue;
    const lanes::Storage& storage = graph_.storages[value.storage];
    if (storage.kind != lanes::StorageKind::persistent) continue;
    const bool on_host = placement_.value_on_host(graph_, index);
    const Bytes offset = on_host ? mirror_->offset(storage.index) : layout_.offset(storage.index);
    const BorrowedStorage& memory = on_host ? mirror_->storage() : image_;
    values_[index] = memory.view(value, static_cast<uint64_t>(offset.count()));
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
      step.on_host = placement_.node_on_host(index) || node.op.starts_with("scalar::");
      step.index = static_cast<uint32_t>(scalars_.size());
      scalars_.push_back(std::move(scalar).value());
      continue;
    }
    step.on_host = placement_.node_on_host(index);
    Result<OperatorCall> call = OperatorCall::resolve(graph_, index, random_.generator(), values_,
                                                      is_static_, device_of(index));
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
  if (Status right = check_results(graph_, node, values_, {}, device_of(index)); !right) {
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
  if (image_.owns(tensor) || (mirror_ != nullptr && mirror_->storage().owns(tensor))) return true;
  return std::any_of(inputs_.begin(), inputs_.end(), [&](auto& in) { return in.owns(tensor); });
}

Status TorchGraphRunner::check_borrowed(lanes::ValueIndex value) const {
  const lanes::Value& declared = graph_.values[value];
  const lanes::Storage& storage = graph_.storages[declared.storage];
  const at::Tensor& tensor = values_[value].toTensor();
  const bool of_mirror = mirror_ != nullptr && mirror_->storage().owns(tensor);
  const bool of_image = of_mirror || image_.owns(tensor);
  const bool right =
      of_image ? storage.kind == lanes::StorageKind::persistent
               : storage.kind == lanes::StorageKind::input && inputs_[storage.index].owns(tensor);
  if (!right) {
    return Error{ErrorCode::invalid_graph, "gave a view of memory that is not that of storage " +
                                               std::to_string(declared.storage) +
                                               ", on which the graph declares it"};
  }
  const Bytes offset = of_mirror  ? mirror_->offset(storage.index)
                       : of_image ? layout_.offset(storage.index)
                                  : Bytes();
  const int64_t base = offset.count() / lanes::dtype_bytes(declared.dtype);
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
               "gave the memory of an argument, but the graph declares its "
               "result on storage " +
                   std::to_string(graph_.values[shared].storage) + ", which is new"};
}

// A capture decided by the layouts that it expected what is a view and what a copy, so all of them
// must be as declared. Where that can no longer be mended (behind the first write), or where
// captures cannot measure (the kernels are not the CPU's), those that a node counts upon must.
Status TorchGraphRunner::check_layouts(size_t index) const {
  const lanes::Node& node = graph_.nodes[index];
  bool matters = !on_device_ && index < graph_.first_write;
  lanes::for_each_result_value(node, [&](lanes::ValueIndex value) {
    if (lanes::storage_of(graph_, value) == nullptr) return;
    matters = matters || strided_[graph_.values[value].storage];
  });
  return matters ? adaptor::check_layouts(graph_, node, values_) : Status();
}

// What is not known once and for all is looked at in every iteration; that may refuse, so it must
// not stand behind the first write.
Status TorchGraphRunner::find_checks() {
  Result<OperandCheck> operands = OperandCheck::make(graph_, is_static_);
  if (!operands) return operands.error();
  operand_check_.emplace(std::move(operands).value());
  for (const uint32_t node : operand_check_->checked_nodes()) steps_[node].check_operands = true;
  Result<IndexCheck> made = make_index_check();
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

Result<IndexCheck> TorchGraphRunner::make_index_check() const {
  if (!on_device_) return IndexCheck::make(graph_);
  std::vector<bool> draws(graph_.nodes.size(), false);
  for (size_t node = 0; node < steps_.size(); ++node) {
    const Step& step = steps_[node];
    draws[node] = step.kind == StepKind::call && calls_[step.index].is_random();
  }
  return IndexCheck::make(graph_, {.operators_check = device_.operators_check_indices(),
                                   .stable_storages = stable_storages(graph_, draws)});
}

// Which slots the CPU's nodes may write, and whether the graph writes some on the device although
// other graphs of the job have them on the CPU.
void TorchGraphRunner::find_mirror_writes() {
  if (mirror_ == nullptr) return;
  if (placement_.writes_host_slots()) flushed_ = mirror_->pieces_of(placement_.host_slots());
  for (const lanes::Node& node : graph_.nodes) {
    for (const lanes::ValueIndex written : node.writes) {
      const lanes::Storage* storage = lanes::storage_of(graph_, written);
      writes_mirror_on_device_ |=
          storage != nullptr && storage->kind == lanes::StorageKind::persistent &&
          mirror_->has(storage->index) && !placement_.value_on_host(graph_, written);
    }
  }
}

// Chains compute on the CPU.
void TorchGraphRunner::find_chains() {
  runs_at_.resize(graph_.nodes.size());
  for (uint32_t node = 0; node < runs_at_.size(); ++node) runs_at_[node] = node;
  if (on_device_) return;
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

}  // namespace laneway::adaptor
