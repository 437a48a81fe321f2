// LaneScope: the scope in which a thread runs an iteration: the thread is bound to the lane's arena
// and stream, has the graph's numeric context, is below autograd, and holds a TorchUse (fork()
// waits). Includes nothing of torch, for the worker above.
#pragma once

#include <cstdint>

#include "adaptor/device/device_lane.h"
#include "adaptor/scope/fork_gate.h"
#include "lanes/graph/graph.h"
#include "memory/lane_arena.h"

namespace laneway::adaptor {

// The arena of the lane that this thread has entered; null outside.
memory::LaneArena* current_arena();

class LaneScope {
 public:
  // All arguments must outlive the scope.
  LaneScope(DeviceLane& lane, memory::LaneArena& arena, const lanes::NumericContext& context);
  ~LaneScope();
  LaneScope(const LaneScope&) = delete;
  LaneScope& operator=(const LaneScope&) = delete;

  // A hash over the addresses that this thread's lane allocations got since the scope began: equal
  // for two iterations when every allocation lay where it lay before.
  uint64_t address_hash() const { return lane_.address_hash(); }

 private:
  const TorchUse use_;
  DeviceLane& lane_;
};

}  // namespace laneway::adaptor
