#include "adaptor/operators/operator_list.h"

#include <algorithm>
#include <array>
#include <string>

namespace laneway::adaptor {
namespace {

constexpr std::string_view kOperators[] = {
#include "adaptor/operators/operator_list.inc"
};

static_assert(std::is_sorted(std::begin(kOperators), std::end(kOperators)),
              "operator_list.inc is sorted");

}  // namespace

std::span<const std::string_view> allowed_operators() { return kOperators; }

bool operator_allowed(std::string_view name) {
  return std::binary_search(std::begin(kOperators), std::end(kOperators), name);
}

c10::OperatorName operator_name(std::string_view full) {
  const size_t dot = full.find('.');
  if (dot == std::string_view::npos) return {std::string(full), ""};
  return {std::string(full.substr(0, dot)), std::string(full.substr(dot + 1))};
}

}  // namespace laneway::adaptor
