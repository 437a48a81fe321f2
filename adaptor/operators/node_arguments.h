// NodeArguments: a node's arguments by the names of its operator's schema, whether they were given
// by position or by name. The graph and the node must outlive it.
#pragma once

#include <ATen/core/function_schema.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lanes/graph/graph.h"

namespace laneway::adaptor {

class NodeArguments {
 public:
  // Where this build of torch has no such operator, no name finds an argument.
  NodeArguments(const lanes::Graph& graph, const lanes::Node& node);

  // The argument; nullptr when it was not given or the schema has no such argument.
  const lanes::Argument* find(std::string_view name) const;
  // The value's index; kNoValue when the argument is no value.
  lanes::ValueIndex value(std::string_view name) const;
  // The tensor that was given; nullptr when none was.
  const lanes::Value* tensor(std::string_view name) const;
  // A constant argument, or the schema's default where none was given; nothing for a value of the
  // iteration.
  std::optional<int64_t> integer(std::string_view name) const;
  std::optional<bool> truth(std::string_view name) const;
  std::optional<double> real(std::string_view name) const;  // for an integer too
  std::optional<std::vector<int64_t>> integers(std::string_view name) const;

 private:
  const c10::IValue* fallback(std::string_view name) const;

  const lanes::Graph& graph_;
  const lanes::Node& node_;
  const c10::FunctionSchema* schema_ = nullptr;
};

}  // namespace laneway::adaptor
