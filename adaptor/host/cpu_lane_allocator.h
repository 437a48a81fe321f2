// The hook between torch's CPU allocations and lanes. Installed once for the process, it gives a
// thread that is bound to a lane memory from that lane's arena and leaves every other thread to
// the allocator that was there before. A block is freed to the arena whose range holds it,
// whichever thread drops it; what outlived its iteration may be freed at any later time
// (adaptor/scope/lane_blocks). Thread-safe.
//
// oneDNN asks for raw_deleter(), so a block's context is its own address and the lane is found by
// address range (see ARCHITECTURE, "Allocations").
#pragma once

#include <exception>

#include "memory/lane_arena.h"

namespace laneway::adaptor {

// Thrown through an operator when an allocation does not fit the lane; the graph runner catches it.
class OutOfLane final : public std::exception {
 public:
  const char* what() const noexcept override { return "the allocation does not fit the lane"; }
};

// Replaces torch's CPU allocator, the first time that it is called.
void install_cpu_lane_allocator();

// While it lives, allocations of this thread come from `arena`, and the arena's range is known to
// frees from other threads. One at a time per thread; an arena is bound to one thread at a time,
// and begins and ends its iterations while it is.
class LaneBinding {
 public:
  explicit LaneBinding(memory::LaneArena& arena);
  ~LaneBinding();
  LaneBinding(const LaneBinding&) = delete;
  LaneBinding& operator=(const LaneBinding&) = delete;

  // Over the addresses of this binding's allocations, in order.
  uint64_t address_hash() const;

 private:
  memory::LaneArena& arena_;
};

// While it lives, this thread's CPU allocations do not come from a lane: what the CPU does beside
// an iteration of a device. Without a binding it changes nothing.
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
