// What liblaneway_cuda.so exports (adaptor/device/device_plugin.h).
#include <torch/headeronly/version.h>

#include "adaptor/cuda/cuda_backend.h"
#include "adaptor/device/device_plugin.h"
#include "base/version.h"

extern "C" __attribute__((visibility("default"))) const laneway::adaptor::DevicePlugin*
laneway_device_plugin() {
  static const laneway::adaptor::DevicePlugin plugin{
      .laneway_version = laneway::version(),
      .torch_version = TORCH_VERSION,
      .open = &laneway::adaptor::CudaBackend::open,
  };
  return &plugin;
}
