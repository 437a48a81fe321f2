#include "adaptor/run/graph_loader.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <utility>

#include "adaptor/checks/result_check.h"
#include "adaptor/checks/stable_storages.h"
#include "adaptor/run/program_binding.h"
#include "adaptor/scope/numeric_context.h"
#include "lanes/graph/graph_facts.h"
#include "lanes/graph/graph_text.h"

namespace laneway::adaptor {
namespace {

using Step = ResolvedGraph::Step;
using StepKind = ResolvedGraph::StepKind;

class GraphLoader {
 public:
  // `program` is the first of `resolved`.
  GraphLoader(ResolvedGraph& resolved, GraphProgram& program)
      : resolved_(resolved), program_(program) {}

  Status load();

 private:
  void make_static_values();
  Status resolve_nodes();
  // Evaluates a view of static values now; false when the node is none. See evaluate_view.
  Result<bool> evaluate_at_load(const OperatorCall& call, uint32_t index);
  Status find_checks();
  Result<IndexCheck> make_index_check() const;
  void find_chains();
  void find_last_uses();
  // What other jobs with this graph bind.
  void keep_unbound();

  ResolvedGraph& resolved_;
  GraphProgram& program_;
  std::vector<uint32_t> runs_at_;  // by node: the node at which it runs, its own but for chains
};

Status GraphLoader::load() {
  try {
    // Views alone are evaluated: the flags of other threads' iterations are left alone.
    const DispatchScope scope;
    make_static_values();
    if (Status resolved = resolve_nodes(); !resolved) return resolved;
  } catch (const c10::Error& error) {
    return Error{
        ErrorCode::invalid_graph,
        "graph '" + program_.graph.name + "' cannot be loaded: " + error.what_without_backtrace()};
  }
  if (Status found = find_checks(); !found) return found;
  resolved_.strided = strided_storages(program_.graph);
  find_chains();  // before last uses, which follow where nodes really run
  find_last_uses();
  find_mirror_writes(program_);
  keep_unbound();
  return {};
}

void GraphLoader::make_static_values() {
  place_static_values(program_);
  for (lanes::ValueIndex value = 0; value < program_.values.size(); ++value) {
    resolved_.is_static[value] = program_.values[value].isTensor();
  }
}

void GraphLoader::keep_unbound() {
  resolved_.calls.reserve(program_.calls.size());
  for (const OperatorCall& call : program_.calls) resolved_.calls.push_back(call.unbound());
}

Status GraphLoader::resolve_nodes() {
  resolved_.steps.resize(program_.graph.nodes.size());
  for (size_t index = 0; index < program_.graph.nodes.size(); ++index) {
    const lanes::Node& node = program_.graph.nodes[index];
    Step& step = resolved_.steps[index];
    if (ScalarCall::handles(node)) {
      Result<ScalarCall> scalar = ScalarCall::resolve(program_.graph, index);
      if (!scalar) return scalar.error();
      step.kind = StepKind::scalar;
      step.on_host = program_.placement.node_on_host(index);
      // Python's arithmetic on numbers is nowhere; a number is read from where its tensor is.
      step.enqueues = !step.on_host && !node.op.starts_with("scalar::");
      step.index = static_cast<uint32_t>(resolved_.scalars.size());
      resolved_.scalars.push_back(std::move(scalar).value());
      continue;
    }
    step.on_host = program_.placement.node_on_host(index);
    step.enqueues = !step.on_host;
    Result<OperatorCall> call =
        OperatorCall::resolve(program_.graph, index, program_.job.random.generator(),
                              program_.values, resolved_.is_static, program_.device_of(index));
    if (!call) return call.error();
    resolved_.draws = resolved_.draws || call.value().is_random();
    const Result<bool> evaluated = evaluate_at_load(call.value(), static_cast<uint32_t>(index));
    if (!evaluated) return evaluated.error();
    if (evaluated.value()) continue;
    step.kind = StepKind::call;
    step.index = static_cast<uint32_t>(program_.calls.size());
    program_.calls.push_back(std::move(call).value());
  }
  return {};
}

Result<bool> GraphLoader::evaluate_at_load(const OperatorCall& call, uint32_t index) {
  const lanes::Node& node = program_.graph.nodes[index];
  if (!call.is_view()) return false;
  bool all_static = true;
  for (const lanes::NamedArgument& given : node.arguments) {
    lanes::for_each_value(given.argument,
                          [&](lanes::ValueIndex v) { all_static &= resolved_.is_static[v]; });
  }
  if (!all_static) return false;
  const Result<bool> evaluated = evaluate_view(program_, call, index);
  if (!evaluated || !evaluated.value()) return evaluated;
  lanes::for_each_result_value(node,
                               [&](lanes::ValueIndex value) { resolved_.is_static[value] = true; });
  resolved_.views.push_back({.node = index, .call = call.unbound()});
  return true;
}

// What is not known once and for all is looked at in every iteration; that may refuse, so it must
// not stand behind the first write.
Status GraphLoader::find_checks() {
  Result<OperandCheck> operands = OperandCheck::make(program_.graph, resolved_.is_static);
  if (!operands) return operands.error();
  resolved_.operand_check.emplace(std::move(operands).value());
  for (const uint32_t node : resolved_.operand_check->checked_nodes())
    resolved_.steps[node].check_operands = true;
  Result<IndexCheck> made = make_index_check();
  if (!made) return made.error();
  resolved_.index_check.emplace(std::move(made).value());
  for (const uint32_t node : resolved_.index_check->checked_nodes())
    resolved_.steps[node].check_indices = true;
  for (size_t node = 0; node < resolved_.steps.size(); ++node) {
    Step& step = resolved_.steps[node];
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
    for (size_t node = 0; node < resolved_.steps.size(); ++node) {
      const Step& step = resolved_.steps[node];
      draws[node] = step.kind == StepKind::call && program_.calls[step.index].is_random();
    }
    looks.stable_storages = stable_storages(program_.graph, draws);
  }
  return IndexCheck::make(program_.graph, looks);
}

void GraphLoader::find_chains() {
  runs_at_.resize(program_.graph.nodes.size());
  for (uint32_t node = 0; node < runs_at_.size(); ++node) runs_at_[node] = node;
  if (!program_.job.device.traits().run_chains) return;
  for (PlannedChain& planned : plan_chains(program_.graph)) {
    ResolvedGraph::Chain chain{std::move(planned), {}};
    const std::vector<uint32_t>& nodes = chain.planned.nodes;
    for (const uint32_t node : nodes) {
      chain.calls.push_back(resolved_.steps[node].index);
      resolved_.steps[node].kind = StepKind::done_elsewhere;
      runs_at_[node] = nodes.back();
    }
    resolved_.steps[nodes.back()].kind = StepKind::chain;
    resolved_.steps[nodes.back()].index = static_cast<uint32_t>(resolved_.chains.size());
    resolved_.chains.push_back(std::move(chain));
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
    if (!resolved_.is_static[value]) resolved_.dynamic.push_back(value);
    if (last[value] != kNever && !resolved_.is_static[value]) dying[last[value]].push_back(value);
  }
  std::vector<bool> dies_here(program_.graph.values.size(), false);
  for (size_t index = 0; index < program_.graph.nodes.size(); ++index) {
    for (const lanes::ValueIndex value : dying[index]) dies_here[value] = true;
    Step& step = resolved_.steps[index];
    if (step.kind == StepKind::call) program_.calls[step.index].move_last_uses(dies_here);
    for (const lanes::ValueIndex value : dying[index]) dies_here[value] = false;
    step.drops = std::move(dying[index]);
  }
}

}  // namespace

Result<std::unique_ptr<const GraphProgram>> load_program(lanes::Graph graph, Placement placement,
                                                         const JobParts& job) {
  auto resolved = std::make_shared<ResolvedGraph>(std::move(graph), std::move(placement));
  auto program = std::make_unique<GraphProgram>(resolved, job);
  if (Status loaded = GraphLoader(*resolved, *program).load(); !loaded) return loaded.error();
  return std::unique_ptr<const GraphProgram>(std::move(program));
}

}  // namespace laneway::adaptor
