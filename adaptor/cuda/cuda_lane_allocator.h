// The hook between torch's CUDA allocations and lanes: what adaptor/host/cpu_lane_allocator is to
// the CPU's. Installed once for the process, it gives a thread that is bound to a lane memory from
// that lane's arena, and leaves every other thread (the user's own eager work, captures of graphs,
// memory pools) to the allocator that was there. Frees go by address, whichever thread they come
// from. Thread-safe.
//
// Memory of the arena is handed out and taken back while kernels that use it are still enqueued.
// That is right because all work of a lane is on its one stream, in order.
//
// What torch keeps beyond an iteration (workspaces of cuBLAS, see cuda_workspaces.h; the seed that
// a recorded graph reads) must not come from an arena: it is allocated in an OutsideLane.
#pragma once

#include <c10/core/Device.h>
#include <driver_types.h>

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "memory/lane_arena.h"

namespace laneway::adaptor {

// Puts it before torch's CUDA allocator, the first time that it is called. No CUDA call is made.
void install_cuda_lane_allocator();

// While it lives, CUDA allocations of this thread come from `arena` and are used on `stream` alone.
// One at a time per thread; an arena is bound to one thread at a time, and begins and ends its
// iterations while it is.
class CudaLaneBinding {
 public:
  CudaLaneBinding(memory::LaneArena& arena, c10::DeviceIndex device, cudaStream_t stream);
  ~CudaLaneBinding();
  CudaLaneBinding(const CudaLaneBinding&) = delete;
  CudaLaneBinding& operator=(const CudaLaneBinding&) = delete;

  // Over the addresses of this binding's allocations, in order.
  uint64_t address_hash() const;
};

// While it lives, allocations of this thread are as if it were not bound.
class OutsideLane {
 public:
  OutsideLane();
  ~OutsideLane();
  OutsideLane(const OutsideLane&) = delete;
  OutsideLane& operator=(const OutsideLane&) = delete;
};

// Blocks of iterations that ended, still used by somebody, within `size` bytes from `base`.
size_t cuda_blocks_escaped_within(const std::byte* base, Bytes size);

}  // namespace laneway::adaptor
