// What a client asks about where a job's image is, by the name of its command.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "lanes/state/event.h"

namespace laneway::wire {

// Nothing when it is the name of something else.
inline std::optional<lanes::Residency> residency_of(std::string_view command) {
  const auto& names = lanes::kResidencyNames;
  const auto* const found = std::find(names.begin(), names.end(), command);
  if (found == names.end()) return std::nullopt;
  return static_cast<lanes::Residency>(found - names.begin());
}

}  // namespace laneway::wire
