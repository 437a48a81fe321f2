#include "memory/device/host_device.h"
#include "memory/device/synthetic_device.h"
#include "tests/conformance/device_rows.h"

namespace laneway::memory {

std::vector<DeviceRow> device_rows() {
  return {{"host", [] { return std::make_unique<HostDevice>(); }},
          {"synthetic", [] { return std::make_unique<SyntheticDevice>(); }}};
}

}  // namespace laneway::memory
