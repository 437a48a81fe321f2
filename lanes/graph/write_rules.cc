// Rules over what nodes write: graph_rules.h has their contracts. Indices are in range by now.
#include <algorithm>

#include "lanes/graph/graph_rules.h"
#include "lanes/graph/graph_text.h"

namespace laneway::lanes {
namespace {

// What is wrong with the node writing `value`; empty when nothing is. `arguments` is sorted.
std::string write_fault(const Graph& graph, const std::vector<ValueIndex>& arguments,
                        ValueIndex value) {
  if (!std::binary_search(arguments.begin(), arguments.end(), value)) {
    return "writes " + (value == kNoValue ? std::string("no value") : value_text(graph, value)) +
           ", which is not among its arguments; name the argument that is changed";
  }
  const Value& target = graph.values[value];
  if (target.kind != ValueKind::tensor) {
    return "writes " + value_text(graph, value) + "; only tensors can be written";
  }
  const Storage& storage = graph.storages[target.storage];
  if (storage.kind == StorageKind::input) {
    return "writes " + value_text(graph, value) + ", the bytes of input " +
           std::to_string(storage.index) +
           ", which belong to the client; write to a copy of it (input.clone())";
  }
  return {};
}

}  // namespace

Status check_writes(const Graph& graph, const GraphFacts&) {
  std::vector<ValueIndex> arguments;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].writes.empty()) continue;
    arguments.clear();
    for_each_argument_value(graph.nodes[i], [&](ValueIndex value) { arguments.push_back(value); });
    std::sort(arguments.begin(), arguments.end());
    std::vector<ValueIndex> writes = graph.nodes[i].writes;
    std::sort(writes.begin(), writes.end());
    if (const auto twice = std::adjacent_find(writes.begin(), writes.end());
        twice != writes.end()) {
      return node_error(graph, i,
                        "writes value " + std::to_string(*twice) + " twice; name each value once");
    }
    for (const ValueIndex value : graph.nodes[i].writes) {
      const std::string fault = write_fault(graph, arguments, value);
      if (!fault.empty()) return node_error(graph, i, fault);
    }
  }
  return {};
}

Status check_first_write(const Graph& graph, const GraphFacts&) {
  const uint32_t actual = first_persistent_write(graph);
  if (graph.first_write == actual) return {};
  if (actual == graph.nodes.size()) {
    return graph_error(graph, "first write is said to be node " +
                                  std::to_string(graph.first_write) +
                                  ", but no node writes the image; it must be the node count, " +
                                  std::to_string(actual));
  }
  return node_error(graph, actual,
                    "is the first to write the image, but the graph says node " +
                        std::to_string(graph.first_write) + "; capture the step again");
}

}  // namespace laneway::lanes
