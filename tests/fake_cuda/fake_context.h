// FakeContext: the fake device's primary context, current on the test's thread. It begins and ends
// with nothing alive and nothing to complain about that the test did not expect.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/fake_cuda/fake_cuda.h"

namespace laneway::fake_cuda {

class FakeContext : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    fake_cuda_reset_counts();
    complaints_ = fake_cuda_count("complaints");
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  }
  void TearDown() override {
    fake_cuda_fail(0);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    for (const char* kind :
         {"contexts", "streams", "events", "memory", "pinned", "green", "graphs", "executables"}) {
      EXPECT_EQ(fake_cuda_live(kind), 0u) << kind;
    }
  }
  // How often the fake complained in this test so far.
  size_t complaints() const { return fake_cuda_count("complaints") - complaints_; }

  CUcontext context_ = nullptr;

 private:
  size_t complaints_ = 0;
};

// A stream of its own, not ordered with the legacy one.
class FakeStream {
 public:
  FakeStream() { EXPECT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS); }
  ~FakeStream() { EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS); }
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;
  operator CUstream() const { return stream_; }

 private:
  CUstream stream_ = nullptr;
};

}  // namespace laneway::fake_cuda
