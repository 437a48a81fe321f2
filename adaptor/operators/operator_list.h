// The operators that a graph may call, by full name with overload ("aten::add.Tensor"): operators,
// not namespaces, so that nothing that opens files, sets or resizes storage, hides a mutation or
// reads another's memory gets in because it happens to live in aten. Sorted; thread-safe.
#pragma once

#include <ATen/core/operator_name.h>

#include <span>
#include <string_view>

namespace laneway::adaptor {

std::span<const std::string_view> allowed_operators();
bool operator_allowed(std::string_view name);

// "aten::add.Tensor" as torch's dispatcher has it: name and overload apart.
c10::OperatorName operator_name(std::string_view full);

}  // namespace laneway::adaptor
