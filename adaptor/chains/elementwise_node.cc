#include "adaptor/chains/elementwise_node.h"

#include <string_view>

namespace laneway::adaptor {
namespace {

using lanes::ValueIndex;

std::optional<ValueIndex> tensor_of(const lanes::Graph& graph, const lanes::Argument& argument) {
  const auto* value = std::get_if<lanes::ValueArgument>(&argument.content);
  if (value == nullptr || value->value == lanes::kNoValue) return std::nullopt;
  if (graph.values[value->value].kind != lanes::ValueKind::tensor) return std::nullopt;
  return value->value;
}

std::optional<ChainNumber> number_of(const lanes::Graph& graph, const lanes::Argument& argument) {
  if (const auto* integer = std::get_if<int64_t>(&argument.content)) {
    return ChainNumber{.constant = static_cast<double>(*integer)};
  }
  if (const auto* real = std::get_if<double>(&argument.content)) {
    return ChainNumber{.constant = *real};
  }
  const auto* value = std::get_if<lanes::ValueArgument>(&argument.content);
  if (value == nullptr || value->value == lanes::kNoValue) return std::nullopt;
  if (graph.values[value->value].kind != lanes::ValueKind::real) return std::nullopt;
  return ChainNumber{.value = value->value};
}

// A node's arguments by schema position, with what stands under a name.
class Arguments {
 public:
  explicit Arguments(const lanes::Node& node) : node_(node) {}

  const lanes::Argument* at(size_t position, std::string_view name) const {
    size_t positional = 0;
    for (const lanes::NamedArgument& given : node_.arguments) {
      if (given.name.empty() ? positional++ == position : given.name == name) {
        return &given.argument;
      }
    }
    return nullptr;
  }

 private:
  const lanes::Node& node_;
};

// "aten::addcmul_" -> "addcmul"; a binary operator's ".Tensor" overload only.
std::string_view short_name(std::string_view op) {
  for (const std::string_view plain : {"aten::addcmul", "aten::addcdiv", "aten::sqrt"}) {
    if (op == plain || (op.starts_with(plain) && op.substr(plain.size()) == "_")) {
      return plain.substr(6);
    }
  }
  if (op == "aten::lerp.Scalar" || op == "aten::lerp_.Scalar") return "lerp";
  for (const std::string_view binary : {"aten::mul", "aten::add", "aten::sub", "aten::div"}) {
    if (!op.starts_with(binary)) continue;
    const std::string_view rest = op.substr(binary.size());
    if (rest == ".Tensor" || rest == "_.Tensor") return binary.substr(6);
  }
  return {};
}

class NodeReader {
 public:
  NodeReader(const lanes::Graph& graph, const lanes::Node& node)
      : graph_(graph), node_(node), arguments_(node) {}

  // The node's arithmetic, if it is of a kind that chains know.
  std::optional<ElementwiseNode> read() const {
    const std::string_view name = short_name(node_.op);
    if (name.empty() || node_.results.size() != 1 || node_.results[0].is_list) return std::nullopt;
    ElementwiseNode found;
    found.result = node_.results[0].values[0];
    const auto a = tensor_at(0, "self");
    if (!a) return std::nullopt;
    found.a = *a;
    // In place nobody need name the result: it is the first operand.
    if (found.result == lanes::kNoValue) found.result = *a;
    if (node_.writes.empty() && found.result == *a) return std::nullopt;
    bool known = true;
    if (name == "sqrt") {
      return found;
    } else if (name == "lerp") {
      found.op = ElementwiseOp::lerp;
      known = take_tensor(1, "end", found.b) && take_number(2, "weight", found.s, false);
    } else if (name == "addcmul" || name == "addcdiv") {
      found.op = name == "addcmul" ? ElementwiseOp::addcmul : ElementwiseOp::addcdiv;
      found.s.constant = 1;
      known = take_tensor(1, "tensor1", found.b) && take_tensor(2, "tensor2", found.c) &&
              take_number(3, "value", found.s, true);
    } else {
      known = take_binary(name, found);
    }
    return known ? std::optional(found) : std::nullopt;
  }

 private:
  bool take_binary(std::string_view name, ElementwiseNode& found) const {
    const bool adds = name == "add" || name == "sub";
    if (take_tensor(1, "other", found.b)) {
      found.op = adds            ? ElementwiseOp::add
                 : name == "mul" ? ElementwiseOp::mul
                                 : ElementwiseOp::div;
      if (adds && !take_number(2, "alpha", found.t, true)) return false;
      if (name == "sub") found.t.negated = true;
      return true;
    }
    if (!take_number(1, "other", found.s, false)) return false;
    found.op = adds            ? ElementwiseOp::add_number
               : name == "mul" ? ElementwiseOp::mul_number
                               : ElementwiseOp::div_number;
    if (!adds) return true;
    // With a factor torch's rounding depends on where an element stands.
    return name == "add" && arguments_.at(2, "alpha") == nullptr;
  }

  std::optional<ValueIndex> tensor_at(size_t position, std::string_view name) const {
    const lanes::Argument* given = arguments_.at(position, name);
    return given == nullptr ? std::nullopt : tensor_of(graph_, *given);
  }

  bool take_tensor(size_t position, std::string_view name, ValueIndex& to) const {
    const auto value = tensor_at(position, name);
    if (value) to = *value;
    return value.has_value();
  }

  bool take_number(size_t position, std::string_view name, ChainNumber& to, bool optional) const {
    const lanes::Argument* given = arguments_.at(position, name);
    if (given == nullptr) return optional;
    const auto number = number_of(graph_, *given);
    if (number) to = *number;
    return number.has_value();
  }

  const lanes::Graph& graph_;
  const lanes::Node& node_;
  const Arguments arguments_;
};

}  // namespace

std::optional<ElementwiseNode> read_elementwise(const lanes::Graph& graph,
                                                const lanes::Node& node) {
  return NodeReader(graph, node).read();
}

}  // namespace laneway::adaptor
