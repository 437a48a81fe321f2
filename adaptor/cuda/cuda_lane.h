// CudaLane: a lane of a CUDA device: a stream of its own (of a partition's, if lanes have one), and
// what a thread stands in while it has entered: the stream as torch's current one, allocations from
// the arena, the graph's numeric context. Whichever thread enters finds torch as it left it.
// One thread at a time.
#pragma once

#include <c10/cuda/CUDAStream.h>

#include <memory>
#include <optional>

#include "adaptor/cuda/cuda_workspaces.h"
#include "adaptor/cuda/sm_partitions.h"
#include "adaptor/device/stream_lane.h"
#include "memory/device/cuda/cuda_device.h"

namespace laneway::adaptor {

class CudaLane final : public StreamLane {
 public:
  // `device`, number `index` of torch's, and `clock` outlive the lane.
  CudaLane(memory::CudaDevice& device, c10::DeviceIndex index, SmPartitions::Lease partition,
           std::unique_ptr<memory::CudaStream> stream, const Clock& clock);
  ~CudaLane() override;

  // Should CUDA fail here, every further call of the lane says so until the next enter.
  void enter(memory::LaneArena& arena, const lanes::NumericContext& context) override;
  void leave() override;
  uint64_t address_hash() const override;

  cudaStream_t native() const { return stream_.stream(); }

 private:
  struct Entered;

  const SmPartitions::Lease partition_;
  const c10::cuda::CUDAStream stream_;
  CudaWorkspaces workspaces_;
  std::unique_ptr<Entered> entered_;
};

}  // namespace laneway::adaptor
