// RestartRule: when a process that died is started again. The first time at once, then after a
// delay that doubles, and not at all when it dies too often in too short a time. A time without
// deaths forgets them. Pure: takes the time as an argument; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>

#include "base/time.h"
#include "service/supervisor/limits.h"

namespace laneway::service {

class RestartRule {
 public:
  struct Times {
    Duration window = limits::kDeathsWindow;
    Duration first_delay = limits::kFirstRestartDelay;
    Duration longest_delay = limits::kLongestRestartDelay;
    uint32_t deaths = limits::kMaxDeaths;  // within the window: given up
  };

  explicit RestartRule(Times times) : times_(times) {}

  // It died: when to start it again; TimePoint::never(): it is given up.
  TimePoint died(TimePoint now);

 private:
  Times times_;
  std::deque<TimePoint> deaths_;
};

}  // namespace laneway::service
