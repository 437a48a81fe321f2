// Numbers as text for messages to users. Pure functions.
#pragma once

#include <array>
#include <charconv>
#include <string>

#include "base/time.h"

namespace laneway {

// The shortest text that gives the number again.
inline std::string number_text(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.begin(), text.end(), value).ptr};
}

// Seconds; whole ones without a point.
inline std::string seconds_text(Duration duration) {
  return number_text(static_cast<double>(duration.ns()) / 1e9);
}

}  // namespace laneway
