#include "adaptor/host/host_torch_device.h"

#include "adaptor/host/host_random_state.h"

namespace laneway::adaptor {

std::unique_ptr<RandomState> HostTorchDevice::make_random_state() const {
  return std::make_unique<HostRandomState>();
}

Result<std::unique_ptr<Recording>> HostTorchDevice::start_recording(DeviceLane& /*lane*/,
                                                                    RandomState& /*random*/) const {
  return Error{ErrorCode::unsupported,
               "the CPU runs operators when they are called: there is nothing to be recorded"};
}

}  // namespace laneway::adaptor
