#include "lanes/state/lane.h"

#include <string>

#include "base/check.h"

namespace laneway::lanes {

const char* lane_state_name(LaneState state) {
  switch (state) {
    case LaneState::closed: return "closed";
    case LaneState::idle: return "idle";
    case LaneState::granted: return "granted";
    case LaneState::recalled: return "recalled";
  }
  return "unknown";
}

bool lane_transition_allowed(LaneState from, LaneState to) {
  switch (from) {
    case LaneState::closed: return to == LaneState::idle;
    case LaneState::idle: return to == LaneState::granted || to == LaneState::closed;
    case LaneState::granted: return to == LaneState::recalled || to == LaneState::idle;
    case LaneState::recalled: return to == LaneState::idle;
  }
  return false;
}

void Lane::move_to(LaneState state) {
  if (!lane_transition_allowed(state_, state)) {
    check_failed("lane_transition_allowed", __FILE__, __LINE__,
                 "lane " + std::to_string(id.value()) + " can't go from " +
                     lane_state_name(state_) + " to " + lane_state_name(state));
  }
  state_ = state;
}

}  // namespace laneway::lanes
