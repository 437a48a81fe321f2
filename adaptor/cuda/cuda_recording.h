// CudaRecording: an iteration's kernels as a CUDA graph. Captured directly from the lane's stream:
// torch's own at::cuda::CUDAGraph would take the process's default generator along, in which the
// user's other threads could not draw meanwhile, and a memory pool, which a lane does not need: its
// addresses are the plan's. Other threads go on with CUDA as if nothing were captured.
//
// Made, ended and launched by the thread that has entered the lane. The CUDA graph owns no memory,
// so that it may go at any time, whatever its addresses hold by then.
#pragma once

#include <driver_types.h>

#include <cstdint>
#include <memory>

#include "adaptor/cuda/cuda_random_state.h"
#include "adaptor/device/stream_lane.h"
#include "adaptor/device/torch_device.h"

namespace laneway::adaptor {

class CudaRecording final : public Recording {
 public:
  // `lane`, whose `stream` it is, may go once it was ended, and it is not launched then; `random`
  // outlives it. failed, with what CUDA said.
  static Result<std::unique_ptr<Recording>> start(StreamLane& lane, cudaStream_t stream,
                                                  CudaRandomState& random);
  // Gives an unfinished one up.
  ~CudaRecording() override;
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;

  Status end() override;
  Status launch() override;

 private:
  CudaRecording(StreamLane& lane, cudaStream_t stream, CudaRandomState& random)
      : lane_(lane), stream_(stream), random_(random) {}

  // What was written down, which may be nothing after an error.
  cudaError_t stop(cudaGraph_t* graph);

  StreamLane& lane_;
  const cudaStream_t stream_;
  CudaRandomState& random_;
  bool recording_ = false;
  cudaGraphExec_t executable_ = nullptr;
  uint64_t draws_ = 0;  // by how much an iteration advances the generator
};

}  // namespace laneway::adaptor
