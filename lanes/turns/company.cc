#include "lanes/turns/company.h"

#include <bit>

namespace laneway::lanes {

void Company::note(Slot& slot, const Slot& other, Duration time) {
  if (!other.turn.bounded) return;  // it may have nothing to run
  if (slot.other == other.turn.job) {
    slot.beside += time;
  } else if (time > slot.beside) {
    slot.other = other.turn.job;
    slot.beside = time;
  }
}

void Company::pass_until(TimePoint now) {
  const Duration passed = now - until_;
  until_ = now;
  const int open = std::popcount(open_);
  if (level_ > 0 && std::popcount(counted_) == static_cast<int>(level_)) at_level_ += passed;
  if (open == 1) {
    alone_ += passed;
  } else if (open == 2) {
    Slot& one = slots_[static_cast<size_t>(std::countr_zero(open_))];
    Slot& two = slots_[static_cast<size_t>(std::countr_zero(open_ & (open_ - 1)))];
    note(one, two, passed);
    note(two, one, passed);
  }
}

void Company::watch_level(uint32_t level, TimePoint now) {
  pass_until(now);
  level_ = level;
  ++watches_;
}

void Company::opened(LaneId lane, const Begun& turn, TimePoint now) {
  pass_until(now);
  slots_[lane.value() - 1] = {.turn = turn,
                              .since = now,
                              .alone_before = alone_,
                              .disturbances_before = disturbances_,
                              .watch = watches_,
                              .at_level_before = at_level_,
                              .other = {},
                              .beside = {}};
  open_ |= set_of(lane);
  if (turn.counted) counted_ |= set_of(lane);
}

Stretch Company::closed(LaneId lane, TimePoint now) {
  pass_until(now);
  open_ &= ~set_of(lane);
  counted_ &= ~set_of(lane);
  const Slot& slot = slots_[lane.value() - 1];
  return {.open = now - slot.since,
          .alone = alone_ - slot.alone_before,
          .beside = slot.beside,
          .other = slot.other,
          .steady = slot.disturbances_before == disturbances_,
          .at_level = slot.watch == watches_ ? at_level_ - slot.at_level_before : Duration()};
}

}  // namespace laneway::lanes
