// LW_CHECK: stops the process with place and message when an invariant is broken, which is a bug;
// in release builds too. It must not be used for faults that a user, a client or a device can
// cause: those are a Result (base/result.h) or an enum in the return value.
#pragma once

#include <string>

namespace laneway {

// Prints "check failed: CONDITION at FILE:LINE: MESSAGE" on standard error and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& message);

}  // namespace laneway

#define LW_CHECK(condition, ...)                                                           \
  do {                                                                                     \
    if (!(condition)) [[unlikely]] {                                                       \
      ::laneway::check_failed(#condition, __FILE__, __LINE__, ::std::string(__VA_ARGS__)); \
    }                                                                                      \
  } while (false)
