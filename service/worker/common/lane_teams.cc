#include "service/worker/common/lane_teams.h"

#include <bit>

namespace laneway::service {

void LaneTeams::begin(LaneId lane) {
  computing_ |= lanes::set_of(lane);
  for (lanes::LaneSet idle = kept_ & ~computing_; idle != 0; idle &= idle - 1) {
    waiters_[static_cast<size_t>(std::countr_zero(idle))]->arrived();
  }
}

void LaneTeams::kept(LaneId lane, Waiter& waiter) {
  kept_ |= lanes::set_of(lane);
  waiters_[lane.value() - 1] = &waiter;
}

}  // namespace laneway::service
