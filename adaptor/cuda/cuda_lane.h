// CudaLane: a lane of a CUDA device, with a stream of its own (of the lane's partition, if it has
// one). While a thread has entered, the stream is torch's current one, allocations come from the
// arena, and the graph's numeric context is set; leave() restores torch's former state on that
// thread. One thread at a time.
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
  // `device`, which is torch's number `index`, `kept` and `clock` must outlive the lane.
  CudaLane(memory::CudaDevice& device, c10::DeviceIndex index, SmPartitions::Lease partition,
           std::unique_ptr<memory::CudaStream> stream, KeptMemory& kept, const Clock& clock);
  ~CudaLane() override;

  // If CUDA fails here, every further call of the lane returns that error until the next enter.
  void enter(memory::LaneArena& arena, const lanes::NumericContext& context) override;
  void leave() override;
  void suspend() override;
  void resume(const lanes::NumericContext& context) override;
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
