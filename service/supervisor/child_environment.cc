#include "service/supervisor/child_environment.h"

#include <unistd.h>

#include <string_view>

namespace laneway::service {

std::vector<std::string> child_environment(bool first) {
  constexpr std::string_view kFault = "LANEWAY_FAULT=";
  constexpr std::string_view kAgain = "LANEWAY_FAULT_AGAIN=";
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable = *each;
    if (variable.starts_with(kAgain)) {
      if (!first) variables.push_back(std::string(kFault) += variable.substr(kAgain.size()));
    } else if (first || !variable.starts_with(kFault)) {
      variables.emplace_back(variable);
    }
  }
  return variables;
}

}  // namespace laneway::service
