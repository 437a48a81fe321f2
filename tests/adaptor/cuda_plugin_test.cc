// Shows that the plugin is whole (every symbol that it needs is found when it is loaded) and of
// this build, and that it says in words what a machine without a device lacks. And which
// names mean a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "adaptor/device/backend.h"
#include "tests/adaptor/loaded_plugin.h"

namespace laneway::adaptor {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::loaded_plugin;

TEST(CudaPlugin, LoadsAndIsOfThisBuild) {
  EXPECT_EQ(loaded_plugin().version, kDevicePluginVersion);
  EXPECT_NE(loaded_plugin().open, nullptr);
}

TEST(CudaPlugin, SaysWhatIsMissing) {
  loaded_plugin();
  // No machine has so many.
  const auto opened = open_backend("cuda:999", {});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ErrorCode::unsupported);
  EXPECT_THAT(opened.error().message, AnyOf(HasSubstr("driver"), HasSubstr("no CUDA device"),
                                            HasSubstr("name one of those")));
}

TEST(OpenBackend, TellsNamesOfDevicesFromOtherTexts) {
  const auto host = open_backend("host", {});
  ASSERT_TRUE(host.ok());
  EXPECT_EQ(host.value()->device().capabilities().name, "host");
  for (const char* name : {"", "gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:1000",
                           "cuda:4294967296", "host ", "Host"}) {
    const auto opened = open_backend(name, {});
    ASSERT_FALSE(opened.ok()) << name;
    EXPECT_EQ(opened.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(opened.error().message, HasSubstr("'" + std::string(name) + "'"));
  }
  EXPECT_EQ(open_backend("host", {.lane_sms = 8}).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace laneway::adaptor
