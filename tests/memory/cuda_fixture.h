// CudaDeviceTest: a CudaDevice on the fake driver. It begins and ends with nothing alive on the
// device, and nothing that the fake had to complain about.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "memory/device/cuda/cuda_device.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace laneway::memory {

// Read when the fake is first used: tests that fill the device need not fill the machine.
inline const int kSmallDevice = ::setenv("FAKE_CUDA_MEMORY_MIB", "256", 0);

class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    complaints_ = fake_cuda_count("complaints");
    open();
  }
  void TearDown() override {
    const bool lost = device_ != nullptr && !device_->health().ok();
    device_.reset();
    if (lost) reset_context();
    for (const char* kind : {"contexts", "streams", "events", "memory", "physical", "reservations",
                             "pinned", "green"}) {
      EXPECT_EQ(fake_cuda_live(kind), 0u) << kind;
    }
    EXPECT_EQ(fake_cuda_used(), 0u);
    if (!lost) {
      EXPECT_EQ(fake_cuda_count("complaints"), complaints_);
    }
  }
  // What was there when the device was lost can only go with its context, as by the end of the
  // process.
  static void reset_context() {
    fake_cuda_fail(0);
    EXPECT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
  }

  // Again, with what the fake can do now.
  void open() {
    device_.reset();
    auto opened = CudaDevice::open(0);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    device_ = std::move(opened).value();
  }
  std::vector<std::byte> read(const std::byte* from, size_t count) {
    std::vector<std::byte> bytes(count);
    const auto stream = device_->create_stream().value();
    EXPECT_TRUE(stream->copy_to_host(bytes.data(), from, Bytes(int64_t(count))).ok());
    EXPECT_TRUE(stream->synchronize().ok());
    return bytes;
  }

  std::unique_ptr<CudaDevice> device_;
  size_t complaints_ = 0;
};

// Takes an ability of the fake's away for a scope.
class Forbid {
 public:
  explicit Forbid(const char* ability) : ability_(ability) {
    EXPECT_TRUE(fake_cuda_forbid(ability, 1));
  }
  ~Forbid() { fake_cuda_forbid(ability_, 0); }
  Forbid(const Forbid&) = delete;
  Forbid& operator=(const Forbid&) = delete;

 private:
  const char* ability_;
};

}  // namespace laneway::memory
