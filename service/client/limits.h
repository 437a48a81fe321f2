// How long a client asks.
#pragma once

#include "base/time.h"

namespace laneway::limits {

// A client without an answer sends its request again: soon, because a dead broker is replaced
// within moments; then more and more rarely, because repetitions add to the work of a busy broker.
// It gives up after a time in which even a long iteration or the largest graph would be complete.
inline constexpr Duration kFirstResend = seconds(1);
inline constexpr Duration kLongestResend = seconds(4);
inline constexpr Duration kLongestRequest = seconds(600);

}  // namespace laneway::limits
