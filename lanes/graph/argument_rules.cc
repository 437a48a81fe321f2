// Rules over the form of nodes: operator names, arguments, results; graph_rules.h has their
// contracts.
#include <algorithm>

#include "lanes/graph/graph_rules.h"
#include "lanes/graph/graph_text.h"
#include "lanes/graph/limits.h"

namespace laneway::lanes {
namespace {

// A letter or underscore, then letters, digits, underscores.
bool is_identifier(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && !is_digit(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return is_letter(c) || is_digit(c); });
}

bool is_op_name(std::string_view op) {
  const size_t colons = op.find("::");
  if (colons == std::string_view::npos) return false;
  const std::string_view rest = op.substr(colons + 2);
  const size_t dot = rest.find('.');
  if (!is_identifier(op.substr(0, colons)) || !is_identifier(rest.substr(0, dot))) return false;
  return dot == std::string_view::npos || is_identifier(rest.substr(dot + 1));
}

// What is wrong with one argument, lists included; empty when nothing is.
std::string argument_fault(const Graph& graph, const Argument& argument, uint32_t depth) {
  if (const auto* value = std::get_if<ValueArgument>(&argument.content)) {
    if (value->value == kNoValue) return "names no value; give None where there is none";
    if (value->value < graph.values.size()) return {};
    return "is value " + std::to_string(value->value) + ", the graph has " +
           std::to_string(graph.values.size());
  }
  const auto* list = std::get_if<ListArgument>(&argument.content);
  if (list == nullptr) return {};
  if (depth >= limits::kMaxListDepth) {
    return "nests lists deeper than " + std::to_string(limits::kMaxListDepth) + ", the limit";
  }
  if (list->elements.size() > limits::kMaxListElements) {
    return "is a list of " + std::to_string(list->elements.size()) +
           " elements, over the limit of " + std::to_string(limits::kMaxListElements);
  }
  for (const Argument& element : list->elements) {
    if (std::string fault = argument_fault(graph, element, depth + 1); !fault.empty()) return fault;
  }
  return {};
}

// Names of keywords: identifiers, after the positional arguments, each once.
std::string naming_fault(const Node& node) {
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    const std::string& name = node.arguments[i].name;
    if (name.empty()) {
      if (i == 0 || node.arguments[i - 1].name.empty()) continue;
      return "argument " + std::to_string(i) + " is positional and follows a named one (" +
             node.arguments[i - 1].name + "); positional ones come first";
    }
    if (!is_identifier(name)) {
      return "argument " + std::to_string(i) + " is named '" + printable(name) +
             "', which is not an identifier";
    }
    for (size_t j = 0; j < i; ++j) {
      if (node.arguments[j].name == name) return "argument '" + name + "' is given twice";
    }
  }
  return {};
}

}  // namespace

Status check_op_names(const Graph& graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (is_op_name(graph.nodes[i].op)) continue;
    return node_error(graph, i,
                      "'" + printable(graph.nodes[i].op) +
                          "' is not an operator name; write namespace::name or "
                          "namespace::name.overload");
  }
  return {};
}

Status check_arguments(const Graph& graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.arguments.size() > limits::kMaxNodeArguments) {
      return node_error(graph, i,
                        std::to_string(node.arguments.size()) +
                            " arguments are over the limit of " +
                            std::to_string(limits::kMaxNodeArguments));
    }
    if (const std::string fault = naming_fault(node); !fault.empty()) {
      return node_error(graph, i, fault);
    }
    for (size_t j = 0; j < node.arguments.size(); ++j) {
      const std::string fault = argument_fault(graph, node.arguments[j].argument, 0);
      if (!fault.empty()) {
        return node_error(graph, i, "argument " + std::to_string(j) + " " + fault);
      }
    }
  }
  return {};
}

Status check_results(const Graph& graph) {
  const auto fault_of = [&](const NodeResult& result) -> std::string {
    if (!result.is_list && result.values.size() != 1) {
      return "has " + std::to_string(result.values.size()) + " values and is no list; give one";
    }
    if (result.values.size() > limits::kMaxListElements) {
      return "is a list of " + std::to_string(result.values.size()) +
             " values, over the limit of " + std::to_string(limits::kMaxListElements);
    }
    for (const ValueIndex value : result.values) {
      if (value == kNoValue) continue;
      if (value >= graph.values.size()) {
        return "is value " + std::to_string(value) + ", the graph has " +
               std::to_string(graph.values.size());
      }
      if (result.is_list && graph.values[value].kind != ValueKind::tensor) {
        return "is a list with " + value_text(graph, value) + "; only tensors come in lists";
      }
    }
    return {};
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::vector<NodeResult>& results = graph.nodes[i].results;
    if (results.size() > limits::kMaxNodeArguments) {
      return node_error(graph, i,
                        std::to_string(results.size()) + " results are over the limit of " +
                            std::to_string(limits::kMaxNodeArguments));
    }
    for (size_t j = 0; j < results.size(); ++j) {
      const std::string fault = fault_of(results[j]);
      if (!fault.empty()) return node_error(graph, i, "result " + std::to_string(j) + " " + fault);
    }
  }
  return {};
}

}  // namespace laneway::lanes
