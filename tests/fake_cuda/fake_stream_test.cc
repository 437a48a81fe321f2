// What the fake's streams show: work runs behind and in order, events order streams and tell when
// work is done, a lasting error answers everything, green contexts have their part of the device.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/fake_cuda/fake_context.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace laneway::fake_cuda {
namespace {

using FakeStreams = FakeContext;

void append(void* text, char letter) { static_cast<std::string*>(text)->push_back(letter); }
void append_a(void* text) { append(text, 'a'); }
void append_b(void* text) { append(text, 'b'); }

TEST_F(FakeStreams, WorkRunsInTheOrderOfItsStreamWhenNothingHoldsIt) {
  FakeStream stream;
  std::string order;
  ASSERT_TRUE(fake_cuda_hold_stream(stream));
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(cuLaunchHostFunc(stream, append_a, &order), CUDA_SUCCESS);
    ASSERT_EQ(cuLaunchHostFunc(stream, append_b, &order), CUDA_SUCCESS);
  }
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_TRUE(order.empty());
  ASSERT_TRUE(fake_cuda_release_stream(stream));
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(order, "ababab");
}

// As on a device: only other functions of the host have to wait.
TEST_F(FakeStreams, AFunctionOfTheHostThatBlocksHoldsUpItsOwnStreamOnly) {
  FakeStream blocked, free;
  std::atomic<bool> release{false};
  const auto block = [](void* until) {
    while (!*static_cast<std::atomic<bool>*>(until)) std::this_thread::yield();
  };
  ASSERT_EQ(cuLaunchHostFunc(blocked, block, &release), CUDA_SUCCESS);
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, free), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(blocked), CUDA_ERROR_NOT_READY);
  release = true;
  EXPECT_EQ(cuStreamSynchronize(blocked), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
}

TEST_F(FakeStreams, AnEventOrdersTwoStreams) {
  FakeStream first, second;
  CUevent event = nullptr;
  std::string order;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);  // never recorded
  fake_cuda_hold_stream(first);
  ASSERT_EQ(cuLaunchHostFunc(first, append_a, &order), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, first), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(second, event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(second, append_b, &order), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  fake_cuda_release_stream(first);
  EXPECT_EQ(cuStreamSynchronize(second), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(order, "ab");
  float milliseconds = 0;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, event, event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, first), CUDA_ERROR_INVALID_HANDLE);
}

// A stream that is not told to be independent waits for the legacy stream, and it for them.
TEST_F(FakeStreams, TheLegacyStreamIsOrderedWithBlockingStreams) {
  CUstream blocking = nullptr;
  std::string order;
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  fake_cuda_hold_stream(blocking);
  ASSERT_EQ(cuLaunchHostFunc(blocking, append_a, &order), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(nullptr, append_b, &order), CUDA_SUCCESS);
  fake_cuda_release_stream(blocking);
  ASSERT_EQ(cuLaunchHostFunc(blocking, append_a, &order), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(order, "aba");
  EXPECT_EQ(cuStreamDestroy(blocking), CUDA_SUCCESS);
}

TEST_F(FakeStreams, AFailureInAStreamIsTheDevicesFromThenOn) {
  FakeStream stream;
  CUdeviceptr memory = 0;
  std::string order;
  fake_cuda_hold_stream(stream);
  ASSERT_TRUE(fake_cuda_fail_in_stream(stream, CUDA_ERROR_ASSERT));
  ASSERT_EQ(cuLaunchHostFunc(stream, append_a, &order), CUDA_SUCCESS);
  fake_cuda_release_stream(stream);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ASSERT);
  EXPECT_EQ(cuMemAlloc(&memory, 64), CUDA_ERROR_ASSERT);
  EXPECT_EQ(fake_cuda_pending(), 0u);
  EXPECT_TRUE(order.empty());
  fake_cuda_fail(0);
}

TEST_F(FakeStreams, AThreadWithoutAContextIsRefused) {
  CUresult result = CUDA_SUCCESS;
  std::thread([&] {
    CUstream stream = nullptr;
    result = cuStreamCreate(&stream, 0);
  }).join();
  EXPECT_EQ(result, CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(complaints(), 1u);
}

TEST_F(FakeStreams, GreenContextsHaveTheirPartOfTheDevice) {
  CUdevResource all{}, part{}, rest{};
  ASSERT_EQ(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  EXPECT_EQ(all.sm.smCount, 132u);
  unsigned groups = 1;
  ASSERT_EQ(cuDevSmResourceSplitByCount(&part, &groups, &all, &rest, 0, 20), CUDA_SUCCESS);
  EXPECT_EQ(groups, 1u);
  EXPECT_EQ(part.sm.smCount, 24u);
  EXPECT_EQ(rest.sm.smCount, 108u);
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  ASSERT_EQ(cuDevResourceGenerateDesc(&description, &part, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxCreate(&green, description, 0, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxFromGreenCtx(&context, green), CUDA_SUCCESS);
  CUdevResource own{};
  ASSERT_EQ(cuCtxGetDevResource(context, &own, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  EXPECT_EQ(own.sm.smCount, 24u);
  EXPECT_EQ(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_DEFAULT, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  CUgreenCtx of_stream = nullptr;
  EXPECT_EQ(cuStreamGetGreenCtx(stream, &of_stream), CUDA_SUCCESS);
  EXPECT_EQ(of_stream, green);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

}  // namespace
}  // namespace laneway::fake_cuda
