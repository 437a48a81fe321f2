// What the fake's captures show: recorded work is not done before a launch and again at each one,
// streams join and must be joined again, and what would wait during a capture spoils it.
#include <cuda.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

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
    ASSERT_EQ(cuMemAlloc(&memory_, 64), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuEventDestroy(event_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(other_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(memory_), CUDA_SUCCESS);
    FakeContext::TearDown();
  }
  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_EQ(cuStreamBeginCapture(stream_, mode), CUDA_SUCCESS);
  }
  template <typename Body>
  static void in_another_thread(Body body) {
    CUcontext context = nullptr;
    ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    std::thread([&] {
      ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      body();
    }).join();
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
  CUdeviceptr memory_ = 0;
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

// Whatever the mode of the capture, and of the thread that waits.
TEST_F(FakeCaptures, NobodyWaitsForTheWholeDeviceMeanwhile) {
  for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                          CU_STREAM_CAPTURE_MODE_RELAXED}) {
    begin(mode);
    ASSERT_EQ(cuMemsetD8Async(memory_, 1, 64, stream_), CUDA_SUCCESS);
    in_another_thread([] {
      CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
      EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&relaxed), CUDA_SUCCESS);
      EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    });
    EXPECT_EQ(cuMemsetD8Async(memory_, 1, 64, stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }
}

TEST_F(FakeCaptures, AnotherThreadWaitsForAStreamThatIsNotCaptured) {
  begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  ASSERT_EQ(cuMemsetD8Async(memory_, 1, 64, stream_), CUDA_SUCCESS);
  in_another_thread([this] {
    EXPECT_EQ(cuStreamSynchronize(other_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS) << "the captured one does not block";
  });
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
}

TEST_F(FakeCaptures, TheLegacyStreamIsLeftAloneWhileABlockingOneIsCaptured) {
  CUstream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  in_another_thread(
      [] { EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT); });
  EXPECT_EQ(cuStreamEndCapture(blocking, &graph_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuStreamDestroy(blocking), CUDA_SUCCESS);
}

TEST_F(FakeCaptures, ATestSpoilsTheNextOnes) {
  fake_cuda_spoil_captures(1, 1);
  begin();
  ASSERT_EQ(cuMemsetD8Async(memory_, 1, 64, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8Async(memory_, 1, 64, stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin();
  ASSERT_EQ(cuMemsetD8Async(memory_, 1, 64, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(memory_, 1, 64, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
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
