// The GPU of this machine, or the one that stands in for it: whichever driver the program finds.
#include <utility>

#include "memory/device/cuda/cuda_device.h"
#include "tests/conformance/device_rows.h"

namespace laneway::memory {

std::vector<DeviceRow> device_rows() {
  return {{LANEWAY_CUDA_ROW, []() -> std::unique_ptr<Device> {
             auto device = CudaDevice::open(0);
             return device.ok() ? std::move(device).value() : nullptr;
           }}};
}

}  // namespace laneway::memory
