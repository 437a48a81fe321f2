#include "tests/adaptor/loaded_plugin.h"

#include <cstdlib>

namespace laneway::testing {

const adaptor::DevicePlugin& loaded_plugin() {
  static const Result<const adaptor::DevicePlugin*> plugin = [] {
    ::setenv("LANEWAY_CUDA_PLUGIN", LANEWAY_CUDA_PLUGIN_FILE, 1);
    return adaptor::load_device_plugin("cuda");
  }();
  return *plugin.value();
}

}  // namespace laneway::testing
