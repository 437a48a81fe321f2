#include "service/worker/lane_teams.h"

#include <bit>

#include "service/worker/lane_wait.h"

namespace laneway::service {

void LaneTeams::begin(LaneId lane) {
  computing_ |= lanes::set_of(lane);
  for (lanes::LaneSet idle = kept_ & ~computing_; idle != 0; idle &= idle - 1) {
    waits_[static_cast<size_t>(std::countr_zero(idle))]->arrived();
  }
}

void LaneTeams::kept(LaneId lane, LaneWait& wait) {
  kept_ |= lanes::set_of(lane);
  waits_[lane.value() - 1] = &wait;
}

}  // namespace laneway::service
