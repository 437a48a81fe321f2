// What torch's CUDA libraries allocate once and keep: cuBLAS has a handle per thread, and torch
// keeps a workspace per handle and stream, of cuBLASLt too, that it allocates when an operator
// first needs it. Inside a lane that would be a block that outlives its iteration, so it is made
// before. Sizes are torch's own: which algorithm is chosen depends on them, and with it the bits.
//
// cuDNN's handle takes nothing from torch's allocator and is made when it is needed, but for
// recordings, which forbid what making it does.
#pragma once

#include <c10/core/Device.h>
#include <driver_types.h>

namespace laneway::adaptor {

// Makes what this thread lacks for `stream` of `device`, both torch's current ones. The thread is
// bound to no lane, or in an OutsideLane. Throws what torch throws.
void prepare_workspaces(c10::DeviceIndex device, cudaStream_t stream);

// Gives those of all threads for `stream` back, before it goes: nothing is enqueued on it.
void forget_workspaces(cudaStream_t stream);

// Makes this thread's handle of cuDNN, if the process uses cuDNN at all.
void prepare_recording();

}  // namespace laneway::adaptor
