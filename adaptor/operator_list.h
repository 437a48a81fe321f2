// The operators that a graph may call, by full name with overload ("aten::add.Tensor"): operators,
// not namespaces, so that nothing that opens files, sets or resizes storage, hides a mutation or
// reads another's memory gets in because it happens to live in aten. Sorted; thread-safe.
#pragma once

#include <span>
#include <string_view>

namespace laneway::adaptor {

std::span<const std::string_view> allowed_operators();
bool operator_allowed(std::string_view name);

}  // namespace laneway::adaptor
