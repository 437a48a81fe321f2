// RestartRule: when a process that died is started again. The first time at once, then after a
// delay that doubles, and not at all when it dies too often in too short a time. A time without
// deaths forgets them, and so does work that was done in between. Pure: takes the time as an
// argument; not thread-safe.
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

  // What work that was done since the last death means for the next start.
  enum class Work : uint8_t {
    its_own,  // the process did it, so nothing is wrong with it: it starts at once
    others,   // the service is of use without it: it is not given up, and starts as late as else
  };

  explicit RestartRule(Times times, Work work = Work::its_own) : times_(times), work_(work) {}

  // It died: when to start it again; TimePoint::never(): it is given up. `done`: how much was done
  // so far; no process is given up for deaths before the last of it.
  TimePoint died(TimePoint now, uint64_t done = 0);

 private:
  Times times_;
  Work work_;
  std::deque<TimePoint> deaths_;  // within the window
  size_t in_vain_ = 0;            // deaths since the last work
  uint64_t done_ = 0;
};

}  // namespace laneway::service
