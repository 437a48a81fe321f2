#include "lanes/turns/company.h"

namespace laneway::lanes {

void Company::pass_until(TimePoint now) {
  if (level_ > 0 && counted() == static_cast<int>(level_)) at_level_ += now - until_;
  until_ = now;
}

void Company::watch_level(uint32_t level, TimePoint now) {
  pass_until(now);
  level_ = level;
  ++watches_;
}

void Company::opened(LaneId lane, bool counted, TimePoint now) {
  pass_until(now);
  slots_[lane.value() - 1] = {.since = now,
                              .disturbances_before = disturbances_,
                              .watch = watches_,
                              .at_level_before = at_level_};
  if (counted) counted_ |= set_of(lane);
}

Stretch Company::closed(LaneId lane, TimePoint now) {
  pass_until(now);
  counted_ &= ~set_of(lane);
  const Slot& slot = slots_[lane.value() - 1];
  return {.open = now - slot.since,
          .steady = slot.disturbances_before == disturbances_,
          .at_level = slot.watch == watches_ ? at_level_ - slot.at_level_before : Duration()};
}

}  // namespace laneway::lanes
