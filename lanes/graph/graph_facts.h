// GraphFacts: facts that follow from a graph's lists and that several rules need: the definition of
// each value, the node that makes each ephemeral storage, and a walk over the values among a node's
// arguments. Works on graphs that were not checked: indices out of range are skipped, the first
// definition wins. Plain data, computed once.
#pragma once

#include <cstdint>
#include <vector>

#include "lanes/graph/graph.h"

namespace laneway::lanes {

// The origins of a value other than a node.
inline constexpr uint32_t kNowhere = UINT32_MAX;        // no input, node or slot gives it
inline constexpr uint32_t kFromInput = UINT32_MAX - 1;  // an input of the iteration
inline constexpr uint32_t kFromImage = UINT32_MAX - 2;  // a persistent tensor that no node makes

struct GraphFacts {
  std::vector<uint32_t> defined_by;  // per value: node index or one of the constants above
  std::vector<uint32_t> made_by;     // per ephemeral storage: its node; kNowhere for others
};

GraphFacts graph_facts(const Graph& graph);

// Calls visit(ValueIndex) for every value argument, lists included, in order; kNoValue is left out.
template <class Visit>
void for_each_value(const Argument& argument, const Visit& visit) {
  if (const auto* value = std::get_if<ValueArgument>(&argument.content)) {
    if (value->value != kNoValue) visit(value->value);
  } else if (const auto* list = std::get_if<ListArgument>(&argument.content)) {
    for (const Argument& element : list->elements) for_each_value(element, visit);
  }
}
template <class Visit>
void for_each_argument_value(const Node& node, const Visit& visit) {
  for (const NamedArgument& named : node.arguments) for_each_value(named.argument, visit);
}

// Calls visit(ValueIndex) for every value that the node gives; kNoValue is left out.
template <class Visit>
void for_each_result_value(const Node& node, const Visit& visit) {
  for (const NodeResult& result : node.results) {
    for (const ValueIndex value : result.values) {
      if (value != kNoValue) visit(value);
    }
  }
}

// The storage of a tensor value; nullptr for a number and for indices out of range.
const Storage* storage_of(const Graph& graph, ValueIndex value);

// Index of the first node that writes a persistent storage; nodes.size() when none does.
uint32_t first_persistent_write(const Graph& graph);

}  // namespace laneway::lanes
