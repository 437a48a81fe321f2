// Rules that follow values from node to node: graph_rules.h has their contracts. Indices are in
// range by now.
#include <algorithm>

#include "lanes/graph/graph_rules.h"
#include "lanes/graph/graph_text.h"

namespace laneway::lanes {
namespace {

std::string place_text(uint32_t place) {
  if (place == kFromInput) return "an input";
  if (place == kFromImage) return "the image";
  return "node " + std::to_string(place);
}

// Bytes from the tensor's first element to the end of its last. The view fits its storage, so
// nothing here overflows.
uint64_t spanned_bytes(const Value& tensor) {
  if (std::find(tensor.sizes.begin(), tensor.sizes.end(), 0) != tensor.sizes.end()) return 0;
  uint64_t elements = 1;
  for (size_t d = 0; d < tensor.sizes.size(); ++d) {
    elements +=
        static_cast<uint64_t>(tensor.sizes[d] - 1) * static_cast<uint64_t>(tensor.strides[d]);
  }
  return elements * static_cast<uint64_t>(dtype_bytes(tensor.dtype));
}

// What is wrong with input `position` being `value`; empty when nothing is.
std::string input_fault(const Graph& graph, size_t position, ValueIndex value) {
  const Value& tensor = graph.values[value];
  if (tensor.kind != ValueKind::tensor) return {};
  const Storage& storage = graph.storages[tensor.storage];
  if (storage.kind != StorageKind::input || storage.index != position) {
    return " is not on the input storage of this position; give each tensor input one of its own";
  }
  if (tensor.storage_offset != 0) {
    return " starts at element " + std::to_string(tensor.storage_offset) +
           " of its storage; inputs start at 0";
  }
  const uint64_t bytes = spanned_bytes(tensor);
  if (bytes != storage.bytes) {
    return " spans " + std::to_string(bytes) + " bytes of a storage of " +
           std::to_string(storage.bytes) + "; inputs span the whole of theirs";
  }
  return {};
}

}  // namespace

Status check_inputs(const Graph& graph, const GraphFacts&) {
  std::vector<bool> rooted(graph.storages.size(), false);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ValueIndex value = graph.inputs[i];
    if (const std::string fault = input_fault(graph, i, value); !fault.empty()) {
      return graph_error(
          graph, "input " + std::to_string(i) + ", " + value_text(graph, value) + "," + fault);
    }
    if (graph.values[value].kind == ValueKind::tensor) rooted[graph.values[value].storage] = true;
  }
  for (size_t s = 0; s < graph.storages.size(); ++s) {
    if (graph.storages[s].kind != StorageKind::input || rooted[s]) continue;
    return graph_error(graph, "storage " + std::to_string(s) + " is that of input " +
                                  std::to_string(graph.storages[s].index) +
                                  ", but no tensor input lies on it; drop it or list the input");
  }
  return {};
}

Status check_defined_once(const Graph& graph, const GraphFacts& facts) {
  std::vector<uint32_t> seen(graph.values.size(), kNowhere);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ValueIndex value = graph.inputs[i];
    if (seen[value] != kNowhere) {
      return graph_error(graph, "input " + std::to_string(i) + " is " + value_text(graph, value) +
                                    " again; give each input a value of its own");
    }
    seen[value] = kFromInput;
  }
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    for (const NodeResult& result : graph.nodes[i].results) {
      for (const ValueIndex value : result.values) {
        if (value == kNoValue) continue;
        if (seen[value] != kNowhere) {
          return node_error(graph, i,
                            "its result " + value_text(graph, value) + " is already defined by " +
                                place_text(seen[value]) +
                                "; give each result a value of its own, on the same storage where "
                                "it is the same memory");
        }
        seen[value] = i;
      }
    }
  }
  for (ValueIndex value = 0; value < graph.values.size(); ++value) {
    if (facts.defined_by[value] != kNowhere) continue;
    return graph_error(graph, value_text(graph, value) +
                                  " is never defined: no input, node or image slot gives it; drop "
                                  "it or list it where it comes from");
  }
  return {};
}

Status check_defined_before_use(const Graph& graph, const GraphFacts& facts) {
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    ValueIndex early = kNoValue;
    for_each_argument_value(graph.nodes[i], [&](ValueIndex value) {
      const uint32_t place = facts.defined_by[value];
      const bool entry = place == kFromInput || place == kFromImage;
      if (!entry && place >= i && early == kNoValue) early = value;
    });
    if (early == kNoValue) continue;
    return node_error(graph, i,
                      "reads " + value_text(graph, early) + ", which " +
                          place_text(facts.defined_by[early]) +
                          " defines; put the nodes in the order in which they run");
  }
  return {};
}

Status check_results_alias_arguments(const Graph& graph, const GraphFacts& facts) {
  // Per storage: one more than the last node that has it among its arguments.
  std::vector<uint32_t> named_by(graph.storages.size(), 0);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    for_each_argument_value(graph.nodes[i], [&](ValueIndex value) {
      if (graph.values[value].kind == ValueKind::tensor) {
        named_by[graph.values[value].storage] = i + 1;
      }
    });
    ValueIndex stray = kNoValue;
    for_each_result_value(graph.nodes[i], [&](ValueIndex value) {
      const Value& result = graph.values[value];
      if (result.kind != ValueKind::tensor) return;
      const bool fresh = facts.made_by[result.storage] == i;
      if (!fresh && named_by[result.storage] != i + 1) stray = value;
    });
    if (stray == kNoValue) continue;
    return node_error(graph, i,
                      "its result " + value_text(graph, stray) + " lies on storage " +
                          std::to_string(graph.values[stray].storage) +
                          ", which exists already and is not among its arguments; give the result "
                          "a storage of its own");
  }
  return {};
}

Status check_storages_are_made(const Graph& graph, const GraphFacts& facts) {
  for (size_t s = 0; s < graph.storages.size(); ++s) {
    if (graph.storages[s].kind != StorageKind::ephemeral || facts.made_by[s] != kNowhere) continue;
    return graph_error(
        graph, "storage " + std::to_string(s) + " of " + std::to_string(graph.storages[s].bytes) +
                   " bytes is ephemeral and no node makes it; drop it, or make it an "
                   "input or a slot of the image");
  }
  return {};
}

}  // namespace laneway::lanes
