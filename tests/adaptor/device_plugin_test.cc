// Shows that a plugin that was built for another torch is refused with both versions, before
// anything of it is called, and what a process says of its own torch.
#include "adaptor/device/device_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "adaptor/device/loaded_torch.h"

namespace laneway::adaptor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Result<const DevicePlugin*> load_with(const char* torch) {
  ::setenv("LANEWAY_NAMED_PLUGIN", LANEWAY_NAMED_TORCH_PLUGIN, 1);
  if (torch == nullptr) {
    ::unsetenv("LANEWAY_TEST_PLUGIN_TORCH");
  } else {
    ::setenv("LANEWAY_TEST_PLUGIN_TORCH", torch, 1);
  }
  return load_device_plugin("named");
}

TEST(LoadedTorch, IsSaidByTheLibraryItself) {
  const TorchVersions torch = loaded_torch();
  EXPECT_FALSE(torch_minor(torch.built).empty()) << torch.built;
  EXPECT_FALSE(torch_minor(torch.running).empty()) << torch.running;
  EXPECT_TRUE(check_loaded_torch(torch)) << "this test was built with the torch that it loads";
}

// Worker and plugin are built together, so not even a patch release differs.
TEST(DevicePlugin, OfAnotherTorchIsRefusedWithBothVersions) {
  const std::string own = loaded_torch().built;
  for (const std::string& other : {std::string("2.99.0"), own + "1"}) {
    const auto loaded = load_with(other.c_str());
    ASSERT_FALSE(loaded.ok()) << other;
    EXPECT_EQ(loaded.error().code, ErrorCode::unsupported);
    EXPECT_THAT(loaded.error().message, AllOf(HasSubstr(LANEWAY_NAMED_TORCH_PLUGIN),
                                              HasSubstr("built against torch " + other + ", "),
                                              HasSubstr("this against " + own + ":")));
  }
  const auto none = load_with(nullptr);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("torch none"));
}

TEST(DevicePlugin, OfTheSameTorchIsLoaded) {
  const auto loaded = load_with(loaded_torch().built.c_str());
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
}

}  // namespace
}  // namespace laneway::adaptor
