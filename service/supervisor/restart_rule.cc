#include "service/supervisor/restart_rule.h"

#include <algorithm>

namespace laneway::service {

TimePoint RestartRule::died(TimePoint now) {
  while (!deaths_.empty() && now - deaths_.front() > times_.window) deaths_.pop_front();
  deaths_.push_back(now);
  if (deaths_.size() >= times_.deaths) return TimePoint::never();
  if (deaths_.size() == 1) return now;
  Duration delay = times_.first_delay;
  for (size_t more = 2; more < deaths_.size() && delay < times_.longest_delay; ++more) {
    delay = delay * 2;
  }
  return now + std::min(delay, times_.longest_delay);
}

}  // namespace laneway::service
