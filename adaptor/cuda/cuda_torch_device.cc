#include "adaptor/cuda/cuda_torch_device.h"

#include "adaptor/cuda/cuda_lane.h"
#include "adaptor/cuda/cuda_random_state.h"
#include "adaptor/cuda/cuda_recording.h"
#include "base/check.h"

namespace laneway::adaptor {

std::unique_ptr<RandomState> CudaTorchDevice::make_random_state() const {
  return std::make_unique<CudaRandomState>(device_, index_, kept_);
}

Result<std::unique_ptr<Recording>> CudaTorchDevice::start_recording(DeviceLane& lane,
                                                                    RandomState& random) const {
  auto* const own_lane = dynamic_cast<CudaLane*>(&lane);
  auto* const own_random = dynamic_cast<CudaRandomState*>(&random);
  LW_CHECK(own_lane != nullptr && own_random != nullptr, "a lane or generator of another device");
  return CudaRecording::start(*own_lane, own_lane->native(), *own_random);
}

}  // namespace laneway::adaptor
