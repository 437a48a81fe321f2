#include "service/supervisor/restart_rule.h"

#include <algorithm>

namespace laneway::service {

TimePoint RestartRule::died(TimePoint now, uint64_t done) {
  if (done != done_) {
    in_vain_ = 0;
    if (work_ == Work::its_own) deaths_.clear();
  }
  done_ = done;
  ++in_vain_;
  while (!deaths_.empty() && now - deaths_.front() > times_.window) deaths_.pop_front();
  deaths_.push_back(now);
  if (std::min(deaths_.size(), in_vain_) >= times_.deaths) return TimePoint::never();
  if (deaths_.size() == 1) return now;
  Duration delay = times_.first_delay;
  for (size_t more = 2; more < deaths_.size() && delay < times_.longest_delay; ++more) {
    delay = delay * 2;
  }
  return now + std::min(delay, times_.longest_delay);
}

}  // namespace laneway::service
