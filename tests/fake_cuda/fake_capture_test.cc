// What the fake's captures show: recorded work is not done before a launch and again at each one,
// streams join and must be joined again, and what would wait during a capture spoils it.
#include <cuda.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/fake_cuda/fake_context.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace laneway::fake_cuda {
namespace {

void append_a(void* text) { static_cast<std::string*>(text)->push_back('a'); }
void append_b(void* text) { static_cast<std::string*>(text)->push_back('b'); }

class FakeCaptures : public FakeContext {
 protected:
  void SetUp() override {
    FakeContext::SetUp();
    ASSERT_EQ(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuEventDestroy(event_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(other_), CUDA_SUCCESS);
    FakeContext::TearDown();
  }
  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_EQ(cuStreamBeginCapture(stream_, mode), CUDA_SUCCESS);
  }
  // The other stream takes part from here on, until `join`.
  void fork() {
    ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamWaitEvent(other_, event_, 0), CUDA_SUCCESS);
  }
  void join() {
    ASSERT_EQ(cuEventRecord(event_, other_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamWaitEvent(stream_, event_, 0), CUDA_SUCCESS);
  }

  CUevent event_ = nullptr;
  CUstream stream_ = nullptr, other_ = nullptr;
  CUgraph graph_ = nullptr;
};

TEST_F(FakeCaptures, RecordedWorkIsDoneAtEachLaunch) {
  std::string order;
  begin();
  ASSERT_EQ(cuLaunchHostFunc(stream_, append_a, &order), CUDA_SUCCESS);
  fork();
  ASSERT_EQ(cuLaunchHostFunc(other_, append_b, &order), CUDA_SUCCESS);
  join();
  ASSERT_EQ(cuLaunchHostFunc(stream_, append_a, &order), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph_), CUDA_SUCCESS);
  size_t nodes = 0;
  ASSERT_EQ(cuGraphGetNodes(graph_, nullptr, &nodes), CUDA_SUCCESS);
  EXPECT_EQ(nodes, 3u);
  CUgraphExec executable = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&executable, graph_, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_TRUE(order.empty());
  ASSERT_EQ(cuGraphLaunch(executable, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(executable, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(order, "abaaba");
  EXPECT_EQ(cuGraphExecDestroy(executable), CUDA_SUCCESS);
}

TEST_F(FakeCaptures, AStreamThatWasNotJoinedAgainIsFoundOut) {
  std::string order;
  begin();
  fork();
  ASSERT_EQ(cuLaunchHostFunc(other_, append_b, &order), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph_), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(graph_, nullptr);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  EXPECT_EQ(cuStreamIsCapturing(other_, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(FakeCaptures, WaitingDuringACaptureSpoilsIt) {
  CUdeviceptr memory = 0;
  begin();
  EXPECT_EQ(cuMemAlloc(&memory, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin();
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin();
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event_), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(FakeCaptures, ARelaxedThreadMayWaitForOtherWork) {
  CUdeviceptr memory = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  begin();
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&memory, 64), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(memory, 1, 64, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(other_), CUDA_SUCCESS);
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(memory), CUDA_SUCCESS);
}

TEST_F(FakeCaptures, AnEventFromOutsideIsNoDependency) {
  ASSERT_EQ(cuEventRecord(event_, other_), CUDA_SUCCESS);
  begin();
  EXPECT_EQ(cuStreamWaitEvent(stream_, event_, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

}  // namespace
}  // namespace laneway::fake_cuda
