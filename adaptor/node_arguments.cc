#include "adaptor/node_arguments.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <variant>

#include "adaptor/operator_list.h"

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
  if (schema_ == nullptr) return std::nullopt;
  const auto position = schema_->argumentIndexWithName(name);
  if (!position) return std::nullopt;
  const auto& fallback = schema_->arguments()[static_cast<size_t>(*position)].default_value();
  return fallback && fallback->isInt() ? std::optional(fallback->toInt()) : std::nullopt;
}

}  // namespace laneway::adaptor
