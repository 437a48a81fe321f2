#include "service/supervisor/child_environment.h"

#include <unistd.h>

#include <string_view>

namespace laneway::service {

namespace {

// Part `index` of a text, or its last one.
std::string_view part_of(std::string_view text, size_t index) {
  for (; index > 0; --index) {
    const size_t end = text.find(';');
    if (end == std::string_view::npos) break;
    text = text.substr(end + 1);
  }
  return text.substr(0, text.find(';'));
}

}  // namespace

std::vector<std::string> child_environment(size_t started) {
  constexpr std::string_view kFault = "LANEWAY_FAULT=";
  constexpr std::string_view kAgain = "LANEWAY_FAULT_AGAIN=";
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable = *each;
    if (variable.starts_with(kAgain)) {
      if (started == 0) continue;
      const std::string_view again = part_of(variable.substr(kAgain.size()), started - 1);
      if (!again.empty()) variables.push_back(std::string(kFault) += again);
    } else if (started == 0 || !variable.starts_with(kFault)) {
      variables.emplace_back(variable);
    }
  }
  return variables;
}

}  // namespace laneway::service
