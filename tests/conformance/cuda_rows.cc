// The GPU of this machine, or the one that stands in for it: whichever driver the program finds.
#include "tests/conformance/device_rows.h"
#include "tests/support/cuda_test_device.h"

namespace laneway::memory {

std::vector<DeviceRow> device_rows() {
  return {{LANEWAY_CUDA_ROW, [] { return testing::cuda_test_device(); }}};
}

}  // namespace laneway::memory
