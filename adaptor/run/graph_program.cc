#include "adaptor/run/graph_program.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>

#include "adaptor/checks/result_check.h"
#include "lanes/graph/graph_facts.h"

namespace laneway::adaptor {

bool GraphProgram::is_borrowed(const at::Tensor& tensor) const {
  if (job.image.owns(tensor) || job.mirror.storage().owns(tensor)) return true;
  return std::any_of(inputs.begin(), inputs.end(),
                     [&tensor](const BorrowedStorage& input) { return input.owns(tensor); });
}

size_t GraphProgram::live_step_count() const {
  return static_cast<size_t>(std::count_if(steps.begin(), steps.end(), [](const Step& step) {
    return step.kind != StepKind::done_elsewhere;
  }));
}

Status GraphProgram::check_node_results(size_t node, const ValueTable& results) const {
  Status right =
      check_results(graph, graph.nodes[node], results, steps[node].drops, device_of(node));
  if (right) right = check_is_new(graph.nodes[node], results);
  if (right) right = check_strides(node, results);
  return right;
}

// A result that the graph takes for new memory must not be the job's or the client's: writes to it
// are not announced as such.
Status GraphProgram::check_is_new(const lanes::Node& node, const ValueTable& results) const {
  lanes::ValueIndex shared = lanes::kNoValue;
  lanes::for_each_result_value(node, [&](lanes::ValueIndex value) {
    if (!results[value].isTensor() || !results[value].toTensor().defined()) return;
    const lanes::Storage* declared = lanes::storage_of(graph, value);
    const bool ephemeral = declared != nullptr && declared->kind == lanes::StorageKind::ephemeral;
    if (ephemeral && is_borrowed(results[value].toTensor())) shared = value;
  });
  if (shared == lanes::kNoValue) return {};
  return Error{ErrorCode::invalid_graph,
               "gave the memory of an argument, but the graph declares its "
               "result on storage " +
                   std::to_string(graph.values[shared].storage) + ", which is new"};
}

// A capture decided by the layouts that it expected what is a view and what a copy, so all of them
// must be as declared. Where that can no longer be mended (behind the first write), or where
// captures cannot measure (the kernels are not the capture's), those that a node relies on must.
Status GraphProgram::check_strides(size_t node, const ValueTable& results) const {
  bool matters = job.device.traits().lay_out_as_captured && node < graph.first_write;
  lanes::for_each_result_value(graph.nodes[node], [&](lanes::ValueIndex value) {
    if (lanes::storage_of(graph, value) == nullptr) return;
    matters = matters || resolved->strided[graph.values[value].storage];
  });
  return matters ? check_layouts(graph, graph.nodes[node], results) : Status();
}

}  // namespace laneway::adaptor
