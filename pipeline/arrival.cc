#include "pipeline/arrival.h"

#include <algorithm>

#include "lanes/graph/graph_facts.h"

namespace laneway::pipeline {

std::vector<Bytes> arrival_needs(const lanes::Graph& graph, const ImageLayout& layout) {
  std::vector<Bytes> needs;
  needs.reserve(graph.nodes.size() + 1);
  Bytes most;
  const auto use = [&](lanes::ValueIndex index) {
    if (index == lanes::kNoValue) return;
    const lanes::Value& value = graph.values[index];
    if (value.kind != lanes::ValueKind::tensor) return;
    const lanes::Storage& storage = graph.storages[value.storage];
    if (storage.kind != lanes::StorageKind::persistent) return;
    const Bytes bytes(static_cast<int64_t>(layout.slot(storage.index).bytes));
    most = std::max(most, layout.offset(storage.index) + bytes);
  };
  for (const lanes::Node& node : graph.nodes) {
    lanes::for_each_argument_value(node, use);
    for (const lanes::NodeResult& result : node.results) {
      for (const lanes::ValueIndex value : result.values) use(value);
    }
    for (const lanes::ValueIndex value : node.writes) use(value);
    needs.push_back(most);
  }
  for (const lanes::ValueIndex output : graph.outputs) use(output);
  needs.push_back(most);
  return needs;
}

}  // namespace laneway::pipeline
