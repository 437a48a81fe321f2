// What torch's CUDA libraries allocate once and keep: cuBLAS has a handle per thread, and torch
// keeps a workspace per handle and stream, of cuBLASLt too, that it allocates when an operator
// first needs it. Inside a lane that would be a block that outlives its iteration, so it is made
// before. Sizes are torch's own: which algorithm is chosen depends on them, and with it the bits.
//
// A lane keeps its workspaces itself and lends them to torch: one for all threads that run it,
// which is right because its stream is in order; and what is recorded for replay holds their
// addresses, also after torch threw its workspaces away, as torch.compile lets it.
//
// cuDNN's handle takes nothing from torch's allocator and is made when it is needed, but for
// recordings, which forbid what making it does.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <driver_types.h>

namespace laneway::adaptor {

// One lane's, for one thread at a time.
class CudaWorkspaces {
 public:
  CudaWorkspaces(c10::DeviceIndex device, cudaStream_t stream) : device_(device), stream_(stream) {}
  // Nothing is enqueued on the stream.
  ~CudaWorkspaces();
  CudaWorkspaces(const CudaWorkspaces&) = delete;
  CudaWorkspaces& operator=(const CudaWorkspaces&) = delete;

  // Makes or lends what this thread lacks. Device and stream are torch's current ones; the thread
  // is bound to no lane, or in an OutsideLane. Throws what torch throws.
  void prepare();

 private:
  const c10::DeviceIndex device_;
  const cudaStream_t stream_;
  c10::DataPtr blas_;
  c10::DataPtr blas_lt_;  // null where cuBLASLt shares the workspace of cuBLAS
};

// Makes this thread's handle of cuDNN, if the process uses cuDNN at all.
void prepare_recording();

}  // namespace laneway::adaptor
