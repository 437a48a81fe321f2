// LaneScope: the scope in which a thread runs an iteration: the thread is bound to the lane's arena
// and stream, has the graph's numeric context, is below autograd, and holds a TorchUse (fork()
// waits). Includes nothing of torch, for the worker above.
#pragma once

#include <cstdint>
#include <optional>

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

  // Out of torch for a while, and in it again: fork() and the user's own numeric flags do not wait
  // for what happens in between, when the thread must not call torch.
  void suspend();
  void resume();

  // A hash over the addresses that this thread's lane allocations got since the scope began: equal
  // for two iterations when every allocation lay where it lay before.
  uint64_t address_hash() const { return lane_.address_hash(); }

 private:
  std::optional<TorchUse> use_;
  DeviceLane& lane_;
  const lanes::NumericContext& context_;
};

}  // namespace laneway::adaptor
