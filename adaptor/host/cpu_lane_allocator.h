// The hook between torch's CPU allocations and lanes. Installed once per process, it gives a thread
// that is bound to a lane memory from that lane's arena; all other threads get theirs from the
// allocator that was there before. A block is freed to the arena with the range that holds it, on
// any thread; a block that outlived its iteration may be freed at any later time
// (adaptor/scope/lane_blocks). Thread-safe.
//
// oneDNN asks for raw_deleter(), so a block's context is its own address and the lane is found by
// address range (docs/design/allocations.md).
#pragma once

#include <exception>

#include "memory/lane_arena.h"

namespace laneway::adaptor {

// Thrown through an operator when an allocation does not fit the lane; the graph runner catches it.
class OutOfLane final : public std::exception {
 public:
  const char* what() const noexcept override { return "the allocation does not fit the lane"; }
};

// The first call replaces torch's CPU allocator; later calls do nothing.
void install_cpu_lane_allocator();

// While a binding lives, this thread's allocations come from `arena`, and frees on other threads
// find the arena's range. Requires: the thread has no other binding, the arena is bound to no other
// thread, and the arena's iterations begin and end within the binding.
class LaneBinding {
 public:
  explicit LaneBinding(memory::LaneArena& arena);
  ~LaneBinding();
  LaneBinding(const LaneBinding&) = delete;
  LaneBinding& operator=(const LaneBinding&) = delete;

  // A hash of the addresses of this binding's allocations, in order.
  uint64_t address_hash() const;

 private:
  memory::LaneArena& arena_;
};

// While it lives, this thread's CPU allocations do not come from a lane: for the CPU's own work
// during an iteration of a device. On a thread without a binding it changes nothing.
class OutsideCpuLane {
 public:
  OutsideCpuLane();
  ~OutsideCpuLane();
  OutsideCpuLane(const OutsideCpuLane&) = delete;
  OutsideCpuLane& operator=(const OutsideCpuLane&) = delete;

 private:
  memory::LaneArena* const before_;
};

}  // namespace laneway::adaptor
