// A plugin for device_plugin_test.cc: of this build, but for the version of torch, which the test
// names in LANEWAY_TEST_PLUGIN_TORCH. It has no device.
#include <cstdlib>

#include "adaptor/device/device_plugin.h"
#include "base/version.h"

extern "C" __attribute__((visibility("default"))) const laneway::adaptor::DevicePlugin*
laneway_device_plugin() {
  static laneway::adaptor::DevicePlugin plugin;
  plugin.laneway_version = laneway::version();
  plugin.torch_version = std::getenv("LANEWAY_TEST_PLUGIN_TORCH");
  return &plugin;
}
