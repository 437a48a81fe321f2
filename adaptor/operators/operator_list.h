// The operators that a graph may call, by full name with overload ("aten::add.Tensor"). The list
// has operators, not namespaces: aten also has operators that open files, set or resize storage,
// hide a mutation or read memory of others. Sorted; thread-safe.
#pragma once

#include <ATen/core/operator_name.h>

#include <span>
#include <string_view>

namespace laneway::adaptor {

std::span<const std::string_view> allowed_operators();
bool operator_allowed(std::string_view name);

// "aten::add.Tensor" in the form of torch's dispatcher: name and overload apart.
c10::OperatorName operator_name(std::string_view full);

}  // namespace laneway::adaptor
