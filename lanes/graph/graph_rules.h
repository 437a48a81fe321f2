// The rules of check_graph, one function each, in the order in which they run: table rules look at
// one entry at a time and make every index safe; flow rules then follow values from node to node.
// Each returns ok or the message that the user gets. How to add one: README.md.
#pragma once

#include <array>

#include "base/result.h"
#include "lanes/graph/graph.h"
#include "lanes/graph/graph_facts.h"

namespace laneway::lanes {

// Table rules (table_rules.cc, argument_rules.cc).

// Counts are within base/limits.h.
Status check_limits(const Graph& graph);
// The numeric context is one that a lane can set.
Status check_context(const Graph& graph);
// Storages have a legal index and size, and their sum is within its limit.
Status check_storages(const Graph& graph);
// No two storages stand for one slot of the image, or for one input.
Status check_storages_are_unique(const Graph& graph);
// Numbers carry nothing but their kind; tensors have as many strides as sizes, none negative.
Status check_value_forms(const Graph& graph);
// offset + sum((size - 1) * stride) + 1 elements of each tensor lie inside its storage.
Status check_views_fit(const Graph& graph);
// "namespace::name" or "namespace::name.overload".
Status check_op_names(const Graph& graph);
// Argument names, their order, nesting depth and value indices.
Status check_arguments(const Graph& graph);
// Result lists: their form and value indices.
Status check_results(const Graph& graph);
// Inputs, outputs: indices in range.
Status check_interface(const Graph& graph);

// Flow rules (flow_rules.cc, write_rules.cc, scalar_rules.cc).

// Tensor inputs are the whole of an input storage of their own position; no other storage is one.
Status check_inputs(const Graph& graph, const GraphFacts& facts);
// Every value is defined exactly once.
Status check_defined_once(const Graph& graph, const GraphFacts& facts);
// Every argument and output is defined before it is used.
Status check_defined_before_use(const Graph& graph, const GraphFacts& facts);
// A result lies on a new storage, or on one that the node's arguments name.
Status check_results_alias_arguments(const Graph& graph, const GraphFacts& facts);
// Every ephemeral storage is made by a node.
Status check_storages_are_made(const Graph& graph, const GraphFacts& facts);
// Writes name tensors among the arguments, each once, and none on an input's bytes.
Status check_writes(const Graph& graph, const GraphFacts& facts);
// first_write is the index of the first node that writes a persistent storage.
Status check_first_write(const Graph& graph, const GraphFacts& facts);
// scalar:: nodes compute a number of the right kind from numbers.
Status check_scalars(const Graph& graph, const GraphFacts& facts);

using TableRule = Status (*)(const Graph&);
using FlowRule = Status (*)(const Graph&, const GraphFacts&);

inline constexpr std::array kTableRules = {
    check_limits,      check_context,   check_storages, check_storages_are_unique,
    check_value_forms, check_views_fit, check_op_names, check_arguments,
    check_results,     check_interface,
};
inline constexpr std::array kFlowRules = {
    check_inputs,
    check_defined_once,
    check_defined_before_use,
    check_results_alias_arguments,
    check_storages_are_made,
    check_writes,
    check_first_write,
    check_scalars,
};

}  // namespace laneway::lanes
