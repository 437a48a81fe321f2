// Shows which names a device may have, and that no other text becomes the name of a library.
#include "base/device_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace laneway {
namespace {

TEST(DeviceName, IsTheHostOrAKindWithAnIndex) {
  const Result<DeviceName> host = parse_device_name("host");
  ASSERT_TRUE(host.ok());
  EXPECT_TRUE(host.value().is_host());
  const Result<DeviceName> cuda = parse_device_name("cuda:12");
  ASSERT_TRUE(cuda.ok());
  EXPECT_FALSE(cuda.value().is_host());
  EXPECT_EQ(cuda.value().kind, "cuda");
  EXPECT_EQ(cuda.value().index, 12u);
  const Result<DeviceName> other = parse_device_name("xpu2:0");
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other.value().kind, "xpu2");
}

TEST(DeviceName, OfAnotherFormIsRefused) {
  for (const char* text :
       {"", "cuda", "cuda:", ":0", "cuda:x", "cuda:1000", "cuda:-1", "host:0", "CUDA:0",
        "../evil:0", "a/b:0", "2x:0", "cuda:0:1", "cuda:0 ", "abcdefghijklmnopq:0"}) {
    const Result<DeviceName> name = parse_device_name(text);
    ASSERT_FALSE(name.ok()) << text;
    EXPECT_EQ(name.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(name.error().message, ::testing::HasSubstr("'cuda:N'"));
  }
}

}  // namespace
}  // namespace laneway
