#include "lanes/graph/graph_facts.h"

#include <algorithm>

namespace laneway::lanes {

const Storage* storage_of(const Graph& graph, ValueIndex value) {
  if (value >= graph.values.size()) return nullptr;
  const Value& tensor = graph.values[value];
  if (tensor.kind != ValueKind::tensor || tensor.storage >= graph.storages.size()) return nullptr;
  return &graph.storages[tensor.storage];
}

GraphFacts graph_facts(const Graph& graph) {
  GraphFacts facts;
  facts.defined_by.assign(graph.values.size(), kNowhere);
  facts.made_by.assign(graph.storages.size(), kNowhere);
  const auto define = [&](ValueIndex value, uint32_t place) {
    if (value >= graph.values.size() || facts.defined_by[value] != kNowhere) return;
    facts.defined_by[value] = place;
  };
  for (const ValueIndex input : graph.inputs) define(input, kFromInput);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    for_each_result_value(graph.nodes[i], [&](ValueIndex value) {
      define(value, i);
      const Storage* storage = storage_of(graph, value);
      if (storage == nullptr || storage->kind != StorageKind::ephemeral) return;
      uint32_t& maker = facts.made_by[graph.values[value].storage];
      if (maker == kNowhere) maker = i;
    });
  }
  for (ValueIndex value = 0; value < graph.values.size(); ++value) {
    const Storage* storage = storage_of(graph, value);
    if (storage != nullptr && storage->kind == StorageKind::persistent) define(value, kFromImage);
  }
  return facts;
}

uint32_t first_persistent_write(const Graph& graph) {
  const auto writes_image = [&](const Node& node) {
    return std::any_of(node.writes.begin(), node.writes.end(), [&](ValueIndex value) {
      const Storage* storage = storage_of(graph, value);
      return storage != nullptr && storage->kind == StorageKind::persistent;
    });
  };
  const auto first = std::find_if(graph.nodes.begin(), graph.nodes.end(), writes_image);
  return static_cast<uint32_t>(first - graph.nodes.begin());
}

}  // namespace laneway::lanes
