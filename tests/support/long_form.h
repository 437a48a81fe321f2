// Whether the long forms of tests are asked for: ./dev test --long sets LANEWAY_LONG=1.
#pragma once

#include <cstdlib>
#include <string_view>

namespace laneway::testing {

inline bool long_form_asked_for() {
  const char* asked = std::getenv("LANEWAY_LONG");
  return asked != nullptr && std::string_view(asked) == "1";
}

}  // namespace laneway::testing
