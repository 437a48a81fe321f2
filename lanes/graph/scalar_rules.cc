// The rule of scalar:: nodes, which no operator schema covers: graph_rules.h has its contract.
// Kinds follow Python: division and square root give a real, anything with a real gives a real,
// whole numbers (booleans count as 0 and 1) give an integer, and a power of them may be either.
#include <array>
#include <optional>
#include <string_view>

#include "lanes/graph/graph_rules.h"
#include "lanes/graph/graph_text.h"

namespace laneway::lanes {
namespace {

struct ScalarOp {
  std::string_view name;
  size_t operands;
};

constexpr std::string_view kPrefix = "scalar::";
constexpr std::array<ScalarOp, 9> kScalarOps = {{
    {"scalar::add", 2},
    {"scalar::sub", 2},
    {"scalar::mul", 2},
    {"scalar::div", 2},
    {"scalar::pow", 2},
    {"scalar::min", 2},
    {"scalar::max", 2},
    {"scalar::neg", 1},
    {"scalar::sqrt", 1},
}};

const ScalarOp* find_scalar_op(std::string_view name) {
  for (const ScalarOp& op : kScalarOps) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

// The kind of a number argument; nothing when it is none.
std::optional<ValueKind> number_kind(const Graph& graph, const Argument& argument) {
  if (std::holds_alternative<int64_t>(argument.content)) return ValueKind::integer;
  if (std::holds_alternative<double>(argument.content)) return ValueKind::real;
  if (std::holds_alternative<bool>(argument.content)) return ValueKind::boolean;
  const auto* value = std::get_if<ValueArgument>(&argument.content);
  if (value == nullptr || value->value == kNoValue) return std::nullopt;
  const ValueKind kind = graph.values[value->value].kind;
  return kind == ValueKind::tensor ? std::nullopt : std::optional(kind);
}

// Whether `op` over numbers of which one is real, or none, can give a number of this kind.
bool gives(std::string_view op, bool any_real, ValueKind kind) {
  if (kind == ValueKind::real)
    return any_real || op == "scalar::div" || op == "scalar::sqrt" || op == "scalar::pow";
  return kind == ValueKind::integer && !any_real && op != "scalar::div" && op != "scalar::sqrt";
}

// What is wrong with a scalar node; empty when nothing is.
std::string scalar_fault(const Graph& graph, const Node& node) {
  const ScalarOp* op = find_scalar_op(node.op);
  if (op == nullptr)
    return "is not a scalar operator; there are add, sub, mul, div, pow, min, max, neg, sqrt";
  if (node.arguments.size() != op->operands) {
    return "has " + std::to_string(node.arguments.size()) + " arguments, it takes " +
           std::to_string(op->operands);
  }
  bool any_real = false;
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    const std::string name = "argument " + std::to_string(i);
    if (!node.arguments[i].name.empty()) {
      return name + " is named '" + node.arguments[i].name + "'; give it by position";
    }
    const std::optional<ValueKind> kind = number_kind(graph, node.arguments[i].argument);
    if (!kind) return name + " is not a number; tensors take aten:: operators";
    any_real = any_real || *kind == ValueKind::real;
  }
  if (!node.writes.empty()) return "writes values; scalar operators write none";
  if (node.results.size() != 1 || node.results[0].is_list) {
    return "has " + std::to_string(node.results.size()) +
           " results or a list of them; it gives one number";
  }
  const ValueIndex result = node.results[0].values[0];
  if (result == kNoValue || gives(node.op, any_real, graph.values[result].kind)) return {};
  return "its result is " + value_text(graph, result) + "; these arguments give " +
         (gives(node.op, any_real, ValueKind::real) ? "a real" : "an integer");
}

}  // namespace

Status check_scalars(const Graph& graph, const GraphFacts&) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!graph.nodes[i].op.starts_with(kPrefix)) continue;
    const std::string fault = scalar_fault(graph, graph.nodes[i]);
    if (!fault.empty()) return node_error(graph, i, fault);
  }
  return {};
}

}  // namespace laneway::lanes
