// The workspaces that torch's CUDA libraries allocate once and keep. cuBLAS has a handle per
// thread, and torch keeps a workspace per handle and stream, for cuBLASLt too; it allocates the
// workspace when an operator first needs it. Inside a lane that would be a block that outlives its
// iteration, so the lane makes it before. The sizes are torch's own: the choice of the algorithm
// depends on them, and with it the bits.
//
// A lane keeps its workspaces itself and lends them to torch: one for all threads that run it,
// which is correct because its stream is in order. Recordings hold the workspaces' addresses, and
// stay valid when torch drops its own workspaces, as torch.compile makes it do.
//
// cuDNN's handle takes nothing from torch's allocator and is made when it is needed. Only a
// recording needs it before, because the calls that make it are forbidden during a capture.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <driver_types.h>

namespace laneway::adaptor {

// The workspaces of one lane. One thread at a time.
class CudaWorkspaces {
 public:
  CudaWorkspaces(c10::DeviceIndex device, cudaStream_t stream) : device_(device), stream_(stream) {}
  // Requires: no work is enqueued on the stream.
  ~CudaWorkspaces();
  CudaWorkspaces(const CudaWorkspaces&) = delete;
  CudaWorkspaces& operator=(const CudaWorkspaces&) = delete;

  // Makes or lends the workspaces that this thread lacks. Throws what torch throws. Requires:
  // device and stream are torch's current ones; the thread is bound to no lane, or is in an
  // OutsideLane.
  void prepare();

 private:
  const c10::DeviceIndex device_;
  const cudaStream_t stream_;
  c10::DataPtr blas_;
  c10::DataPtr blas_lt_;  // null where cuBLASLt shares the workspace of cuBLAS
};

// Makes this thread's cuDNN handle, if the process uses cuDNN.
void prepare_recording();

}  // namespace laneway::adaptor
