// CudaRecording: an iteration's kernels as a CUDA graph, captured directly from the lane's stream.
// torch's own at::cuda::CUDAGraph would include the process's default generator, from which the
// user's other threads could not draw meanwhile, and a memory pool, which a lane does not need: its
// addresses are the plan's. A capture does not disturb other threads' use of CUDA.
//
// Requires: the thread that has entered the lane makes, ends and launches it. The CUDA graph owns
// no memory, so it may be destroyed at any time.
#pragma once

#include <driver_types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "adaptor/cuda/cuda_random_state.h"
#include "adaptor/device/stream_lane.h"
#include "adaptor/device/torch_device.h"

namespace laneway::adaptor {

class CudaRecording final : public Recording {
 public:
  // Begins a recording on `stream`, which is `lane`'s. The lane may be destroyed after end(); the
  // recording must not be launched then. `random` must outlive the recording. Error failed with
  // CUDA's message.
  static Result<std::unique_ptr<Recording>> start(StreamLane& lane, cudaStream_t stream,
                                                  CudaRandomState& random);
  // Drops an unfinished recording.
  ~CudaRecording() override;
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;

  Status end() override;
  bool is_spoilt(const std::string& fault) const override;
  Status launch() override;

 private:
  CudaRecording(StreamLane& lane, cudaStream_t stream, CudaRandomState& random)
      : lane_(lane), stream_(stream), random_(random) {}

  // Ends the capture and gives its graph, which may be null after an error.
  cudaError_t stop(cudaGraph_t* graph);

  StreamLane& lane_;
  const cudaStream_t stream_;
  CudaRandomState& random_;
  bool recording_ = false;
  bool spoilt_ = false;  // end() found that another thread did it
  cudaGraphExec_t executable_ = nullptr;
  uint64_t draws_ = 0;  // by how much a launch advances the generator
};

}  // namespace laneway::adaptor
