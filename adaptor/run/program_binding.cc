#include "adaptor/run/program_binding.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>

#include "adaptor/checks/result_check.h"
#include "adaptor/scope/numeric_context.h"
#include "lanes/graph/graph_facts.h"
#include "lanes/graph/graph_text.h"

namespace laneway::adaptor {
namespace {

Status check_borrowed(const GraphProgram& program, lanes::ValueIndex value) {
  const lanes::Value& declared = program.graph.values[value];
  const lanes::Storage& storage = program.graph.storages[declared.storage];
  const at::Tensor& tensor = program.values[value].toTensor();
  const JobParts& job = program.job;
  const bool of_mirror = job.mirror.storage().owns(tensor);
  const bool of_image = of_mirror || job.image.owns(tensor);
  const bool right = of_image ? storage.kind == lanes::StorageKind::persistent
                              : storage.kind == lanes::StorageKind::input &&
                                    program.inputs[storage.index].owns(tensor);
  if (!right) {
    return Error{ErrorCode::invalid_graph, "gave a view of memory that is not that of storage " +
                                               std::to_string(declared.storage) +
                                               ", on which the graph declares it"};
  }
  const Bytes offset = of_mirror  ? job.mirror.offset(storage.index)
                       : of_image ? job.layout.offset(storage.index)
                                  : Bytes();
  const int64_t base = offset.count() / lanes::dtype_bytes(declared.dtype);
  return check_place(tensor, declared, base);
}

Status bind_calls(GraphProgram& program) {
  const ResolvedGraph& resolved = *program.resolved;
  const at::Generator& generator = program.job.random.generator();
  for (const ResolvedGraph::View& view : resolved.views) {
    const Result<bool> evaluated =
        evaluate_view(program, view.call.bound(generator, program.values), view.node);
    if (!evaluated) return evaluated.error();
    if (evaluated.value()) continue;
    return lanes::node_error(program.graph, view.node, "gave a copy, and a view before");
  }
  program.calls.reserve(resolved.calls.size());
  for (const OperatorCall& call : resolved.calls) {
    program.calls.push_back(call.bound(generator, program.values));
  }
  return {};
}

}  // namespace

void place_static_values(GraphProgram& program) {
  const lanes::Graph& graph = program.graph;
  std::vector<bool> made_by_node(graph.values.size(), false);
  for (const lanes::Node& node : graph.nodes) {
    for (const lanes::NodeResult& result : node.results) {
      for (const lanes::ValueIndex value : result.values) {
        if (value != lanes::kNoValue) made_by_node[value] = true;
      }
    }
  }
  for (const lanes::ValueIndex input : graph.inputs) {
    const lanes::Value& value = graph.values[input];
    const bool tensor = value.kind == lanes::ValueKind::tensor;
    const bool on_host = tensor && program.placement.value_on_host(graph, input);
    program.inputs.emplace_back(
        tensor ? graph.storages[value.storage].bytes : 0,
        on_host ? c10::Device(c10::DeviceType::CPU) : program.job.device.device());
    if (tensor) program.values[input] = program.inputs.back().view(value, 0);
  }
  for (lanes::ValueIndex index = 0; index < graph.values.size(); ++index) {
    const lanes::Value& value = graph.values[index];
    if (value.kind != lanes::ValueKind::tensor || made_by_node[index]) continue;
    const lanes::Storage& storage = graph.storages[value.storage];
    if (storage.kind != lanes::StorageKind::persistent) continue;
    const JobParts& job = program.job;
    const bool mirrored =
        program.placement.value_on_host(graph, index) && job.mirror.has(storage.index);
    const Bytes offset =
        mirrored ? job.mirror.offset(storage.index) : job.layout.offset(storage.index);
    const BorrowedStorage& memory = mirrored ? job.mirror.storage() : job.image;
    program.values[index] = memory.view(value, static_cast<uint64_t>(offset.count()));
  }
}

Result<bool> evaluate_view(GraphProgram& program, const OperatorCall& call, size_t index) {
  const lanes::Node& node = program.graph.nodes[index];
  torch::jit::Stack stack;
  call.run(program.values, stack);
  if (Status right =
          check_results(program.graph, node, program.values, {}, program.device_of(index));
      !right) {
    return lanes::node_error(program.graph, index, right.error().message);
  }
  bool all_views = true;
  Status placed;
  lanes::for_each_result_value(node, [&](lanes::ValueIndex value) {
    all_views = all_views && program.values[value].isTensor() &&
                program.is_borrowed(program.values[value].toTensor());
    if (all_views && placed) placed = check_borrowed(program, value);
  });
  if (!placed) return lanes::node_error(program.graph, index, placed.error().message);
  if (!all_views) {
    lanes::for_each_result_value(
        node, [&](lanes::ValueIndex value) { program.values[value] = c10::IValue(); });
  }
  return all_views;
}

void find_mirror_writes(GraphProgram& program) {
  StateMirror& mirror = program.job.mirror;
  if (program.placement.writes_host_slots()) {
    program.flushed = mirror.pieces_of(program.placement.host_slots());
  }
  for (const lanes::Node& node : program.graph.nodes) {
    for (const lanes::ValueIndex written : node.writes) {
      const lanes::Storage* storage = lanes::storage_of(program.graph, written);
      program.writes_mirror_on_device |=
          storage != nullptr && storage->kind == lanes::StorageKind::persistent &&
          mirror.has(storage->index) && !program.placement.value_on_host(program.graph, written);
    }
  }
}

Result<std::unique_ptr<const GraphProgram>> bind_program(
    std::shared_ptr<const ResolvedGraph> resolved, const JobParts& job) {
  auto program = std::make_unique<GraphProgram>(std::move(resolved), job);
  try {
    // Views alone are evaluated: the flags of other threads' iterations are left alone.
    const DispatchScope scope;
    place_static_values(*program);
    if (Status bound = bind_calls(*program); !bound) return bound.error();
  } catch (const c10::Error& error) {
    return Error{
        ErrorCode::invalid_graph,
        "graph '" + program->graph.name + "' cannot be loaded: " + error.what_without_backtrace()};
  }
  find_mirror_writes(*program);
  return std::unique_ptr<const GraphProgram>(std::move(program));
}

}  // namespace laneway::adaptor
