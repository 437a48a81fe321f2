// Decimal numbers of text as whole numbers of a smaller unit, without a floating-point number on
// the way: seconds as nanoseconds, megabytes as bytes. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace laneway::simulator {

// `text` x `unit`, rounded to the nearest whole number, halves up: of "59.3" and 1'000'000 that is
// 59'300'000. None: it is no decimal number ("12", "-0.5", "7."), or the result is too large.
std::optional<int64_t> scaled_decimal(std::string_view text, int64_t unit);

}  // namespace laneway::simulator
