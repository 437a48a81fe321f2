// The hook between torch's CUDA allocations and lanes, as adaptor/host/cpu_lane_allocator is for
// the CPU. Installed once per process, it gives a thread that is bound to a lane memory from that
// lane's arena; all other threads (the user's own eager work, captures of graphs, memory pools) get
// theirs from the allocator that was there before. A free finds the arena by address, on any
// thread. Thread-safe.
//
// The arena gives and takes memory while kernels that use it are still enqueued. That is correct
// because all work of a lane is on its one stream, in order.
//
// Memory that torch keeps beyond an iteration (workspaces of cuBLAS, see cuda_workspaces.h) must
// not come from an arena: whoever makes torch allocate it gives it LentMemory.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <driver_types.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/bytes.h"
#include "memory/lane_arena.h"

namespace laneway::adaptor {

// The first call installs the hook before torch's CUDA allocator; later calls do nothing. No CUDA
// call is made.
void install_cuda_lane_allocator();

// While a binding lives, this thread's CUDA allocations come from `arena`, and only work on
// `stream` may use them. Requires: the thread has no other binding, the arena is bound to no other
// thread, and the arena's iterations begin and end within the binding.
class CudaLaneBinding {
 public:
  CudaLaneBinding(memory::LaneArena& arena, c10::DeviceIndex device, cudaStream_t stream);
  ~CudaLaneBinding();
  CudaLaneBinding(const CudaLaneBinding&) = delete;
  CudaLaneBinding& operator=(const CudaLaneBinding&) = delete;

  // A hash of the addresses of this binding's allocations, in order.
  uint64_t address_hash() const;
};

// While it lives, this thread's allocations get the memory that `lend` gives for their bytes. Torch
// never frees it: its owner must keep it for as long as torch may use it.
class LentMemory {
 public:
  LentMemory(c10::DeviceIndex device, std::function<void*(size_t)> lend);
  ~LentMemory();
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

  // For the allocator.
  c10::DataPtr give(size_t bytes);

 private:
  const c10::DeviceIndex device_;
  const std::function<void*(size_t)> lend_;
  LentMemory* const before_;
};

// The number of blocks within `size` bytes from `base` that are still in use after their iterations
// ended.
size_t cuda_blocks_escaped_within(const std::byte* base, Bytes size);

}  // namespace laneway::adaptor
