// The workspaces that torch's CUDA libraries allocate once and keep. cuBLAS has a handle per
// thread, and torch keeps a workspace per handle and stream, for cuBLASLt too; it allocates the
// workspace when an operator first needs it. Inside a lane that would be a block that outlives its
// iteration, so the lane makes it before. The sizes are torch's own: the choice of the algorithm
// depends on them, and with it the bits.
//
// A lane has its workspaces from KeptMemory and lends them to torch: one for all threads that run
// it, which is correct because its stream is in order. Recordings hold the workspaces' addresses,
// and stay valid when torch drops the loan, as torch.compile makes it do. The lane's end hands them
// on to the next one.
//
// From torch 2.15 on this is so only in a process with TORCH_CUBLAS_WORKSPACE_CACHE=1. Else torch
// keeps none: an operator allocates its workspace and frees it again, as it does with cuDNN's, and
// in a lane that is an allocation of the iteration like any other.
//
// cuDNN's handle takes nothing from torch's allocator and is made when it is needed. Only a
// recording needs it before, because the calls that make it are forbidden during a capture.
#pragma once

#include <c10/core/Device.h>
#include <driver_types.h>

#include "adaptor/cuda/kept_memory.h"

namespace laneway::adaptor {

// Whether torch keeps workspaces in this process.
bool torch_keeps_workspaces();

// The workspaces of one lane. One thread at a time.
class CudaWorkspaces {
 public:
  // `kept` must outlive the workspaces.
  CudaWorkspaces(c10::DeviceIndex device, cudaStream_t stream, KeptMemory& kept)
      : device_(device), stream_(stream), kept_(kept) {}
  // Requires: no work is enqueued on the stream.
  ~CudaWorkspaces();
  CudaWorkspaces(const CudaWorkspaces&) = delete;
  CudaWorkspaces& operator=(const CudaWorkspaces&) = delete;

  // Makes this thread's handle and lends torch the workspaces that it lacks. Throws what torch and
  // KeptMemory throw. Requires: device and stream are torch's current ones.
  void prepare();

 private:
  void* lend(KeptMemory::Block& own, size_t bytes);

  const c10::DeviceIndex device_;
  const cudaStream_t stream_;
  KeptMemory& kept_;
  KeptMemory::Block blas_;
  KeptMemory::Block blas_lt_;  // none where cuBLASLt shares the workspace of cuBLAS
};

// Makes this thread's cuDNN handle, if the process uses cuDNN.
void prepare_recording();

}  // namespace laneway::adaptor
