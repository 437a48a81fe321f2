#include "adaptor/operators/node_arguments.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <variant>

#include "adaptor/operators/operator_list.h"

namespace laneway::adaptor {

NodeArguments::NodeArguments(const lanes::Graph& graph, const lanes::Node& node)
    : graph_(graph), node_(node) {
  const auto handle = c10::Dispatcher::singleton().findSchema(operator_name(node.op));
  if (handle) schema_ = &handle->schema();
}

const lanes::Argument* NodeArguments::find(std::string_view name) const {
  for (const lanes::NamedArgument& given : node_.arguments) {
    if (given.name == name) return &given.argument;
  }
  if (schema_ == nullptr) return nullptr;
  const auto position = schema_->argumentIndexWithName(name);
  if (!position || static_cast<size_t>(*position) >= node_.arguments.size()) return nullptr;
  const lanes::NamedArgument& given = node_.arguments[static_cast<size_t>(*position)];
  return given.name.empty() ? &given.argument : nullptr;
}

lanes::ValueIndex NodeArguments::value(std::string_view name) const {
  const lanes::Argument* given = find(name);
  const auto* value =
      given == nullptr ? nullptr : std::get_if<lanes::ValueArgument>(&given->content);
  return value == nullptr ? lanes::kNoValue : value->value;
}

const lanes::Value* NodeArguments::tensor(std::string_view name) const {
  const lanes::ValueIndex index = value(name);
  if (index == lanes::kNoValue) return nullptr;
  const lanes::Value& found = graph_.values[index];
  return found.kind == lanes::ValueKind::tensor ? &found : nullptr;
}

std::optional<int64_t> NodeArguments::integer(std::string_view name) const {
  if (const lanes::Argument* given = find(name)) {
    const auto* integer = std::get_if<int64_t>(&given->content);
    return integer == nullptr ? std::nullopt : std::optional(*integer);
  }
  const c10::IValue* given = fallback(name);
  return given != nullptr && given->isInt() ? std::optional(given->toInt()) : std::nullopt;
}

std::optional<bool> NodeArguments::truth(std::string_view name) const {
  if (const lanes::Argument* given = find(name)) {
    const auto* truth = std::get_if<bool>(&given->content);
    return truth == nullptr ? std::nullopt : std::optional(*truth);
  }
  const c10::IValue* given = fallback(name);
  return given != nullptr && given->isBool() ? std::optional(given->toBool()) : std::nullopt;
}

std::optional<double> NodeArguments::real(std::string_view name) const {
  if (const lanes::Argument* given = find(name)) {
    if (const auto* real = std::get_if<double>(&given->content)) return *real;
    const auto* whole = std::get_if<int64_t>(&given->content);
    return whole == nullptr ? std::nullopt : std::optional(static_cast<double>(*whole));
  }
  const c10::IValue* given = fallback(name);
  if (given == nullptr || !(given->isDouble() || given->isInt())) return std::nullopt;
  return given->toScalar().toDouble();
}

std::optional<std::vector<int64_t>> NodeArguments::integers(std::string_view name) const {
  if (const lanes::Argument* given = find(name)) {
    const auto* list = std::get_if<lanes::ListArgument>(&given->content);
    if (list == nullptr) return std::nullopt;
    std::vector<int64_t> numbers;
    for (const lanes::Argument& element : list->elements) {
      const auto* number = std::get_if<int64_t>(&element.content);
      if (number == nullptr) return std::nullopt;
      numbers.push_back(*number);
    }
    return numbers;
  }
  const c10::IValue* given = fallback(name);
  if (given == nullptr || !given->isIntList()) return std::nullopt;
  return given->toIntVector();
}

const c10::IValue* NodeArguments::fallback(std::string_view name) const {
  if (schema_ == nullptr) return nullptr;
  const auto position = schema_->argumentIndexWithName(name);
  if (!position) return nullptr;
  const auto& value = schema_->arguments()[static_cast<size_t>(*position)].default_value();
  return value ? &*value : nullptr;
}

}  // namespace laneway::adaptor
