#include "memory/device/host_device.h"
#include "tests/conformance/device_rows.h"
#include "tests/support/synthetic_device.h"

namespace laneway::memory {

std::vector<DeviceRow> device_rows() {
  return {{"host", [] { return std::make_unique<HostDevice>(); }},
          {"synthetic", [] { return std::make_unique<SyntheticDevice>(); }}};
}

}  // namespace laneway::memory
