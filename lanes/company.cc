#include "lanes/company.h"

#include <bit>

namespace laneway::lanes {

void Company::note(Slot& slot, const Slot& other, Duration time) {
  if (!other.bounded) return;  // it may have nothing to run
  if (slot.other == other.job) {
    slot.beside += time;
  } else if (time > slot.beside) {
    slot.other = other.job;
    slot.beside = time;
  }
}

void Company::pass_until(TimePoint now) {
  const Duration passed = now - until_;
  until_ = now;
  const int open = std::popcount(open_);
  if (open == 1) {
    alone_ += passed;
  } else if (open == 2) {
    Slot& one = slots_[static_cast<size_t>(std::countr_zero(open_))];
    Slot& two = slots_[static_cast<size_t>(std::countr_zero(open_ & (open_ - 1)))];
    note(one, two, passed);
    note(two, one, passed);
  }
}

void Company::opened(LaneId lane, JobId job, bool bounded, TimePoint now) {
  pass_until(now);
  slots_[lane.value() - 1] = {.job = job,
                              .bounded = bounded,
                              .since = now,
                              .alone_before = alone_,
                              .disturbances_before = disturbances_,
                              .other = {},
                              .beside = {}};
  open_ |= set_of(lane);
}

Stretch Company::closed(LaneId lane, TimePoint now) {
  pass_until(now);
  open_ &= ~set_of(lane);
  const Slot& slot = slots_[lane.value() - 1];
  return {.open = now - slot.since,
          .alone = alone_ - slot.alone_before,
          .beside = slot.beside,
          .other = slot.other,
          .steady = slot.disturbances_before == disturbances_};
}

}  // namespace laneway::lanes
