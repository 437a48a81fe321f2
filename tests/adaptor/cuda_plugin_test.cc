// Shows that the plugin is whole (every symbol that it needs is found when it is loaded) and of
// this build, and that it says in words what a machine without a device lacks; and that torch's
// CUDA kernels are known once it is loaded, also without a device. And which names mean a device.
#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "adaptor/backend.h"
#include "adaptor/device_plugin.h"

namespace laneway::adaptor {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

const DevicePlugin& loaded() {
  static const Result<const DevicePlugin*> plugin = [] {
    ::setenv("LANEWAY_CUDA_PLUGIN", LANEWAY_CUDA_PLUGIN_FILE, 1);
    return load_device_plugin();
  }();
  return *plugin.value();
}

TEST(CudaPlugin, LoadsAndIsOfThisBuild) {
  EXPECT_EQ(loaded().version, kDevicePluginVersion);
  EXPECT_NE(loaded().open, nullptr);
}

TEST(CudaPlugin, SaysWhatIsMissing) {
  loaded();
  // No machine has so many.
  const auto opened = open_backend("cuda:4096", {});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ErrorCode::unsupported);
  EXPECT_THAT(opened.error().message, AnyOf(HasSubstr("driver"), HasSubstr("no CUDA device"),
                                            HasSubstr("name one of those")));
}

TEST(OpenBackend, TellsNamesOfDevicesFromOtherTexts) {
  const auto host = open_backend("host", {});
  ASSERT_TRUE(host.ok());
  EXPECT_EQ(host.value()->device().capabilities().name, "host");
  for (const char* name : {"", "gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ",
                           "cuda:4294967296", "host ", "Host"}) {
    const auto opened = open_backend(name, {});
    ASSERT_FALSE(opened.ok()) << name;
    EXPECT_EQ(opened.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(opened.error().message, HasSubstr("'" + std::string(name) + "'"));
  }
  EXPECT_EQ(open_backend("host", {.lane_sms = 8}).error().code, ErrorCode::invalid_argument);
}

TEST(CudaPlugin, BringsTorchsCudaKernels) {
  loaded();
  const auto adamw = c10::Dispatcher::singleton().findSchema({"aten::_fused_adamw_", ""});
  ASSERT_TRUE(adamw.has_value());
  EXPECT_TRUE(adamw->hasKernelForDispatchKey(c10::DispatchKey::CUDA));
}

}  // namespace
}  // namespace laneway::adaptor
