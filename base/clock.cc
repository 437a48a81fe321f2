#include "base/clock.h"

#include <chrono>

namespace laneway {

TimePoint SteadyClock::now() const {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return TimePoint(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

}  // namespace laneway
