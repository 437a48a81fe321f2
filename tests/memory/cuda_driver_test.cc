// Shows that a driver that is missing, too old or incomplete is refused in words that say which and
// what to do, and that one without the optional functions is taken: libraries of our own stand for
// such drivers.
#include "memory/device/cuda/cuda_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace laneway::memory {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const char* library) {
  const Result<CudaDriver> driver = CudaDriver::load_from(library);
  if (driver.ok()) return "taken";
  EXPECT_EQ(driver.error().code, ErrorCode::unsupported);
  return driver.error().message;
}

TEST(CudaDriver, NoLibrary) {
  EXPECT_THAT(refusal("libcuda-that-is-not-there.so.1"),
              AllOf(HasSubstr("libcuda-that-is-not-there.so.1"), HasSubstr("cannot be opened"),
                    HasSubstr("install NVIDIA's driver"), HasSubstr("--device host")));
}

TEST(CudaDriver, ALibraryThatIsNoDriver) {
  EXPECT_THAT(refusal("libc.so.6"), HasSubstr("does not tell its version"));
}

TEST(CudaDriver, AnOldDriver) {
  EXPECT_THAT(refusal(LANEWAY_OLD_DRIVER),
              AllOf(HasSubstr("it has CUDA 12.4"), HasSubstr("needs CUDA 13.0"),
                    HasSubstr("install a newer driver")));
}

TEST(CudaDriver, AMissingFunction) {
  EXPECT_THAT(refusal(LANEWAY_INCOMPLETE_DRIVER),
              AllOf(HasSubstr("cuEventCreate, cuEventDestroy"), HasSubstr("cuEventSynchronize")));
}

TEST(CudaDriver, OptionalFunctionsMayBeMissing) {
  const Result<CudaDriver> driver = CudaDriver::load_from(LANEWAY_PLAIN_DRIVER);
  ASSERT_TRUE(driver.ok()) << driver.error().message;
  EXPECT_EQ(driver.value().cuGreenCtxCreate, nullptr);
  EXPECT_EQ(driver.value().cuGreenCtxStreamCreate, nullptr);
  EXPECT_NE(driver.value().cuMemCreate, nullptr);
}

TEST(CudaDriver, IsLoadedOnce) {
  const Result<const CudaDriver*> first = CudaDriver::load();
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(CudaDriver::load().value(), first.value());
}

}  // namespace
}  // namespace laneway::memory
