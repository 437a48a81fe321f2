#include "adaptor/run/graph_loader.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <utility>

#include "adaptor/checks/result_check.h"
#include "adaptor/checks/stable_storages.h"
#include "adaptor/scope/numeric_context.h"
#include "lanes/graph/graph_facts.h"
#include "lanes/graph/graph_text.h"

namespace laneway::adaptor {
namespace {

using Step = GraphProgram::Step;
using StepKind = GraphProgram::StepKind;

class GraphLoader {
 public:
  explicit GraphLoader(GraphProgram& program) : program_(program) {}

  Status load();

 private:
  Status make_static_values();
  Status resolve_nodes();
  // Evaluates a view of static values now; false when its result is not a view after all.
  // invalid_graph when it is another one than the graph declares.
  Result<bool> evaluate_at_load(const OperatorCall& call, size_t index);
  Status check_borrowed(lanes::ValueIndex value) const;
  Status find_checks();
  Result<IndexCheck> make_index_check() const;
  void find_mirror_writes();
  void find_chains();
  void find_last_uses();

  GraphProgram& program_;
  std::vector<uint32_t> runs_at_;  // by node: the node at which it runs, its own but for chains
};

Status GraphLoader::load() {
  try {
    // Views alone are evaluated: the flags of other threads' iterations are left alone.
    const DispatchScope scope;
    if (Status made = make_static_values(); !made) return made;
    if (Status resolved = resolve_nodes(); !resolved) return resolved;
  } catch (const c10::Error& error) {
    return Error{
        ErrorCode::invalid_graph,
        "graph '" + program_.graph.name + "' cannot be loaded: " + error.what_without_backtrace()};
  }
  if (Status found = find_checks(); !found) return found;
  program_.strided = strided_storages(program_.graph);
  find_chains();  // before last uses, which follow where nodes really run
  find_last_uses();
  find_mirror_writes();
  return {};
}

Status GraphLoader::make_static_values() {
  std::vector<bool> made_by_node(program_.graph.values.size(), false);
  for (const lanes::Node& node : program_.graph.nodes) {
    for (const lanes::NodeResult& result : node.results) {
      for (const lanes::ValueIndex value : result.values) {
        if (value != lanes::kNoValue) made_by_node[value] = true;
      }
    }
  }
  for (const lanes::ValueIndex input : program_.graph.inputs) {
    const lanes::Value& value = program_.graph.values[input];
    const bool tensor = value.kind == lanes::ValueKind::tensor;
    const bool on_host = tensor && program_.placement.value_on_host(program_.graph, input);
    program_.inputs.emplace_back(
        tensor ? program_.graph.storages[value.storage].bytes : 0,
        on_host ? c10::Device(c10::DeviceType::CPU) : program_.job.device.device());
    if (!tensor) continue;
    program_.values[input] = program_.inputs.back().view(value, 0);
    program_.is_static[input] = true;
  }
  for (lanes::ValueIndex index = 0; index < program_.graph.values.size(); ++index) {
    const lanes::Value& value = program_.graph.values[index];
    if (value.kind != lanes::ValueKind::tensor || made_by_node[index]) continue;
    const lanes::Storage& storage = program_.graph.storages[value.storage];
    if (storage.kind != lanes::StorageKind::persistent) continue;
    const bool mirrored = program_.placement.value_on_host(program_.graph, index) &&
                          program_.job.mirror.has(storage.index);
    const Bytes offset = mirrored ? program_.job.mirror.offset(storage.index)
                                  : program_.job.layout.offset(storage.index);
    const BorrowedStorage& memory = mirrored ? program_.job.mirror.storage() : program_.job.image;
    program_.values[index] = memory.view(value, static_cast<uint64_t>(offset.count()));
    program_.is_static[index] = true;
  }
  return {};
}

Status GraphLoader::resolve_nodes() {
  program_.steps.resize(program_.graph.nodes.size());
  for (size_t index = 0; index < program_.graph.nodes.size(); ++index) {
    const lanes::Node& node = program_.graph.nodes[index];
    Step& step = program_.steps[index];
    if (ScalarCall::handles(node)) {
      Result<ScalarCall> scalar = ScalarCall::resolve(program_.graph, index);
      if (!scalar) return scalar.error();
      step.kind = StepKind::scalar;
      step.on_host = program_.placement.node_on_host(index);
      // Python's arithmetic on numbers is nowhere; a number is read from where its tensor is.
      step.enqueues = !step.on_host && !node.op.starts_with("scalar::");
      step.index = static_cast<uint32_t>(program_.scalars.size());
      program_.scalars.push_back(std::move(scalar).value());
      continue;
    }
    step.on_host = program_.placement.node_on_host(index);
    step.enqueues = !step.on_host;
    Result<OperatorCall> call =
        OperatorCall::resolve(program_.graph, index, program_.job.random.generator(),
                              program_.values, program_.is_static, program_.device_of(index));
    if (!call) return call.error();
    program_.draws = program_.draws || call.value().is_random();
    const Result<bool> evaluated = evaluate_at_load(call.value(), index);
    if (!evaluated) return evaluated.error();
    if (evaluated.value()) continue;
    step.kind = StepKind::call;
    step.index = static_cast<uint32_t>(program_.calls.size());
    program_.calls.push_back(std::move(call).value());
  }
  return {};
}

Result<bool> GraphLoader::evaluate_at_load(const OperatorCall& call, size_t index) {
  const lanes::Node& node = program_.graph.nodes[index];
  if (!call.is_view()) return false;
  bool all_static = true;
  for (const lanes::NamedArgument& given : node.arguments) {
    lanes::for_each_value(given.argument,
                          [&](lanes::ValueIndex v) { all_static &= program_.is_static[v]; });
  }
  if (!all_static) return false;
  torch::jit::Stack stack;
  call.run(program_.values, stack);
  if (Status right =
          check_results(program_.graph, node, program_.values, {}, program_.device_of(index));
      !right) {
    return lanes::node_error(program_.graph, index, right.error().message);
  }
  bool all_views = true;
  Status placed;
  lanes::for_each_result_value(node, [&](lanes::ValueIndex value) {
    all_views = all_views && program_.values[value].isTensor() &&
                program_.is_borrowed(program_.values[value].toTensor());
    if (all_views && placed) placed = check_borrowed(value);
  });
  if (!placed) return lanes::node_error(program_.graph, index, placed.error().message);
  for (const lanes::NodeResult& result : node.results) {
    for (const lanes::ValueIndex value : result.values) {
      if (value == lanes::kNoValue) continue;
      if (all_views) {
        program_.is_static[value] = true;
      } else {
        program_.values[value] = c10::IValue();
      }
    }
  }
  return all_views;
}

Status GraphLoader::check_borrowed(lanes::ValueIndex value) const {
  const lanes::Value& declared = program_.graph.values[value];
  const lanes::Storage& storage = program_.graph.storages[declared.storage];
  const at::Tensor& tensor = program_.values[value].toTensor();
  const bool of_mirror = program_.job.mirror.storage().owns(tensor);
  const bool of_image = of_mirror || program_.job.image.owns(tensor);
  const bool right = of_image ? storage.kind == lanes::StorageKind::persistent
                              : storage.kind == lanes::StorageKind::input &&
                                    program_.inputs[storage.index].owns(tensor);
  if (!right) {
    return Error{ErrorCode::invalid_graph, "gave a view of memory that is not that of storage " +
                                               std::to_string(declared.storage) +
                                               ", on which the graph declares it"};
  }
  const Bytes offset = of_mirror  ? program_.job.mirror.offset(storage.index)
                       : of_image ? program_.job.layout.offset(storage.index)
                                  : Bytes();
  const int64_t base = offset.count() / lanes::dtype_bytes(declared.dtype);
  return check_place(tensor, declared, base);
}

// What is not known once and for all is looked at in every iteration; that may refuse, so it must
// not stand behind the first write.
Status GraphLoader::find_checks() {
  Result<OperandCheck> operands = OperandCheck::make(program_.graph, program_.is_static);
  if (!operands) return operands.error();
  program_.operand_check.emplace(std::move(operands).value());
  for (const uint32_t node : program_.operand_check->checked_nodes())
    program_.steps[node].check_operands = true;
  Result<IndexCheck> made = make_index_check();
  if (!made) return made.error();
  program_.index_check.emplace(std::move(made).value());
  for (const uint32_t node : program_.index_check->checked_nodes())
    program_.steps[node].check_indices = true;
  for (size_t node = 0; node < program_.steps.size(); ++node) {
    Step& step = program_.steps[node];
    if (step.kind != StepKind::call || !program_.calls[step.index].shape_depends_on_data())
      continue;
    if (node >= program_.graph.first_write) {
      return lanes::node_error(program_.graph, node,
                               "the shape of its result depends on data, which must not be found "
                               "out after the first write to the job's memory: use masks of a "
                               "fixed shape, or compute it before the optimizer's step");
    }
    step.check_results = true;
  }
  return {};
}

Result<IndexCheck> GraphLoader::make_index_check() const {
  const KernelTraits traits = program_.job.device.traits();
  IndexLooks looks{.operators_check = traits.check_indices};
  if (traits.looking_waits) {
    std::vector<bool> draws(program_.graph.nodes.size(), false);
    for (size_t node = 0; node < program_.steps.size(); ++node) {
      const Step& step = program_.steps[node];
      draws[node] = step.kind == StepKind::call && program_.calls[step.index].is_random();
    }
    looks.stable_storages = stable_storages(program_.graph, draws);
  }
  return IndexCheck::make(program_.graph, looks);
}

// Which slots the CPU's nodes may write, and whether the graph writes some on the device although
// other graphs of the job have them on the CPU.
void GraphLoader::find_mirror_writes() {
  if (program_.placement.writes_host_slots())
    program_.flushed = program_.job.mirror.pieces_of(program_.placement.host_slots());
  for (const lanes::Node& node : program_.graph.nodes) {
    for (const lanes::ValueIndex written : node.writes) {
      const lanes::Storage* storage = lanes::storage_of(program_.graph, written);
      program_.writes_mirror_on_device |=
          storage != nullptr && storage->kind == lanes::StorageKind::persistent &&
          program_.job.mirror.has(storage->index) &&
          !program_.placement.value_on_host(program_.graph, written);
    }
  }
}

void GraphLoader::find_chains() {
  runs_at_.resize(program_.graph.nodes.size());
  for (uint32_t node = 0; node < runs_at_.size(); ++node) runs_at_[node] = node;
  if (!program_.job.device.traits().run_chains) return;
  for (PlannedChain& planned : plan_chains(program_.graph)) {
    GraphProgram::Chain chain{std::move(planned), {}};
    const std::vector<uint32_t>& nodes = chain.planned.nodes;
    for (const uint32_t node : nodes) {
      chain.calls.push_back(program_.steps[node].index);
      program_.steps[node].kind = StepKind::done_elsewhere;
      runs_at_[node] = nodes.back();
    }
    program_.steps[nodes.back()].kind = StepKind::chain;
    program_.steps[nodes.back()].index = static_cast<uint32_t>(program_.chains.size());
    program_.chains.push_back(std::move(chain));
  }
}

void GraphLoader::find_last_uses() {
  constexpr size_t kNever = SIZE_MAX;
  std::vector<size_t> last(program_.graph.values.size(), kNever);
  for (size_t index = 0; index < program_.graph.nodes.size(); ++index) {
    for (const lanes::NodeResult& result : program_.graph.nodes[index].results) {
      for (const lanes::ValueIndex value : result.values) {
        if (value != lanes::kNoValue) last[value] = runs_at_[index];
      }
    }
    for (const lanes::NamedArgument& given : program_.graph.nodes[index].arguments) {
      lanes::for_each_value(given.argument, [&](lanes::ValueIndex value) {
        if (last[value] == kNever || last[value] < runs_at_[index]) last[value] = runs_at_[index];
      });
    }
  }
  for (const lanes::ValueIndex output : program_.graph.outputs) last[output] = kNever;
  std::vector<std::vector<lanes::ValueIndex>> dying(program_.graph.nodes.size());
  for (lanes::ValueIndex value = 0; value < last.size(); ++value) {
    if (!program_.is_static[value]) program_.dynamic.push_back(value);
    if (last[value] != kNever && !program_.is_static[value]) dying[last[value]].push_back(value);
  }
  std::vector<bool> dies_here(program_.graph.values.size(), false);
  for (size_t index = 0; index < program_.graph.nodes.size(); ++index) {
    for (const lanes::ValueIndex value : dying[index]) dies_here[value] = true;
    Step& step = program_.steps[index];
    if (step.kind == StepKind::call) program_.calls[step.index].move_last_uses(dies_here);
    for (const lanes::ValueIndex value : dying[index]) dies_here[value] = false;
    step.drops = std::move(dying[index]);
  }
}

}  // namespace

Result<std::unique_ptr<const GraphProgram>> load_program(lanes::Graph graph, Placement placement,
                                                         const JobParts& job) {
  auto program = std::make_unique<GraphProgram>(std::move(graph), std::move(placement), job);
  if (Status loaded = GraphLoader(*program).load(); !loaded) return loaded.error();
  return std::unique_ptr<const GraphProgram>(std::move(program));
}

}  // namespace laneway::adaptor
