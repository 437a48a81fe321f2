#include "lanes/turns/lane_turns.h"

#include <algorithm>

namespace laneway::lanes {

void LaneTurns::wait(const Waiting& waiting) {
  const auto known = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const Waiting& one) { return one.lane == waiting.lane; });
  if (known != queue_.end()) {
    *known = waiting;
  } else {
    queue_.push_back(waiting);
  }
}

void LaneTurns::leave(LaneId lane) {
  std::erase_if(queue_, [lane](const Waiting& one) { return one.lane == lane; });
}

}  // namespace laneway::lanes
