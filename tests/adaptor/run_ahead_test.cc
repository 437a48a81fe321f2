// Shows that the CPU stays ahead of the device by about limits::kRunAhead and never further, that
// the device does not run dry for it, and that a device which keeps up is never waited for: in a
// world with one clock, in which every node takes as long as the test says.
#include "adaptor/device/run_ahead.h"

#include <gtest/gtest.h>

#include "adaptor/device/limits.h"
#include "tests/adaptor/paced_device.h"

namespace laneway::adaptor {
namespace {

class RunAheadTest : public ::testing::Test {
 protected:
  // The largest backlog meanwhile.
  Duration run(int nodes, Duration on_device, Duration on_cpu) {
    Duration most;
    for (int i = 0; i < nodes; ++i) {
      clock_.advance(on_cpu);
      device_.enqueue(on_device);
      EXPECT_TRUE(ahead_.node_enqueued().ok());
      most = std::max(most, device_.backlog());
    }
    return most;
  }
  // The same for recordings.
  Duration launch(int recordings, Duration on_device, Duration on_cpu) {
    Duration most;
    for (int i = 0; i < recordings; ++i) {
      clock_.advance(on_cpu);
      device_.enqueue(on_device);
      EXPECT_TRUE(ahead_.recording_launched().ok());
      most = std::max(most, device_.backlog());
    }
    return most;
  }

  ManualClock clock_;
  testing::PacedDevice device_{clock_};
  const std::unique_ptr<memory::Stream> stream_ = device_.create_stream().value();
  RunAhead ahead_{device_, *stream_, clock_};
};

TEST_F(RunAheadTest, ASlowDeviceIsKeptBusyWithAboutTheBound) {
  run(300, microseconds(50), microseconds(5));  // what it learns from
  const Duration idle = device_.idle();
  const Duration most = run(5'000, microseconds(50), microseconds(5));
  EXPECT_LE(most, limits::kRunAhead + limits::kRunAheadMark * 3);
  EXPECT_GE(most, limits::kRunAhead);
  EXPECT_EQ(device_.idle(), idle);
  EXPECT_GT(ahead_.waits(), 0u);
  EXPECT_EQ(ahead_.node_time(), microseconds(50));
}

TEST_F(RunAheadTest, ADeviceThatKeepsUpIsNeverWaitedFor) {
  run(20'000, microseconds(3), microseconds(8));
  EXPECT_EQ(ahead_.waits(), 0u);
  EXPECT_LE(ahead_.nodes_ahead(), 3u * limits::kMaxNodesPerMark);
}

TEST_F(RunAheadTest, ADeviceThatIsALittleSlowerIsKeptBusy) {
  run(300, microseconds(9), microseconds(8));
  const Duration idle = device_.idle();
  const Duration most = run(20'000, microseconds(9), microseconds(8));
  EXPECT_EQ(device_.idle(), idle);
  EXPECT_LE(most, limits::kRunAhead * 2);
}

TEST_F(RunAheadTest, NodesOfSeveralMillisecondsLeaveOneBehindTheOneThatIsWaitedFor) {
  run(50, milliseconds(5), microseconds(5));
  const Duration idle = device_.idle();
  const Duration most = run(200, milliseconds(5), microseconds(5));
  EXPECT_EQ(device_.idle(), idle);
  EXPECT_LE(most, milliseconds(15));
}

TEST_F(RunAheadTest, AChangeOfPaceIsFollowedWithoutLettingTheDeviceRunDry) {
  run(300, microseconds(80), microseconds(5));
  for (int iteration = 0; iteration < 20; ++iteration) {
    const Duration idle = device_.idle();
    run(100, microseconds(80), microseconds(5));  // large kernels,
    run(200, microseconds(8), microseconds(5));   // then an optimizer's
    EXPECT_LE(device_.idle() - idle, microseconds(100)) << "of 9,600 us, in " << iteration;
    EXPECT_LE(device_.backlog(), limits::kRunAhead * 2);
  }
}

// Between the time when it kept up and the time when it does not, marks are few: the bound is met
// again once two of them were seen done.
TEST_F(RunAheadTest, ADeviceThatBecomesSlowIsNoticed) {
  run(5'000, microseconds(3), microseconds(8));
  run(200, microseconds(100), microseconds(8));
  const Duration most = run(1'000, microseconds(100), microseconds(8));
  EXPECT_LE(most, limits::kRunAhead + limits::kRunAheadMark * 3);
}

TEST_F(RunAheadTest, WhileNothingIsKnownTheNumberOfMarksIsTheBound) {
  run(1'000, seconds(1), Duration());
  EXPECT_LE(ahead_.nodes_ahead(), limits::kMaxRunAheadMarks);
}

TEST_F(RunAheadTest, AStreamThatWasWaitedForHasNothingAhead) {
  run(40, microseconds(50), microseconds(5));
  EXPECT_GT(ahead_.nodes_ahead(), 0u);
  ASSERT_TRUE(stream_->synchronize().ok());
  ahead_.drained();
  EXPECT_EQ(ahead_.nodes_ahead(), 0u);
}

// However many nodes a mark had before: launches of 50 ms leave one behind the one that runs.
TEST_F(RunAheadTest, RecordingsOfManyMillisecondsLeaveOneBehindTheOneThatIsWaitedFor) {
  run(5'000, microseconds(3), microseconds(8));
  launch(2, milliseconds(50), microseconds(20));
  const Duration idle = device_.idle();
  EXPECT_LE(launch(50, milliseconds(50), microseconds(20)), milliseconds(100));
  EXPECT_EQ(device_.idle(), idle);
}

TEST_F(RunAheadTest, ShortRecordingsRunAheadByTheBound) {
  launch(50, microseconds(200), microseconds(20));
  const Duration idle = device_.idle();
  const Duration most = launch(500, microseconds(200), microseconds(20));
  EXPECT_EQ(device_.idle(), idle);
  EXPECT_GE(most, limits::kRunAhead);
  EXPECT_LE(most, limits::kRunAhead + microseconds(400));
}

// A step that is recorded up to its optimizer: the nodes behind a launch are small.
TEST_F(RunAheadTest, ARecordingTeachesNothingAboutNodes) {
  run(300, microseconds(10), microseconds(5));
  ASSERT_TRUE(stream_->synchronize().ok());
  ahead_.drained();
  const Duration node = ahead_.node_time();
  launch(100, milliseconds(5), microseconds(5));
  EXPECT_EQ(ahead_.node_time(), node);
  for (int iteration = 0; iteration < 20; ++iteration) {
    launch(1, milliseconds(5), microseconds(5));
    run(100, microseconds(10), microseconds(5));
    EXPECT_LE(ahead_.node_time(), microseconds(20)) << iteration;
    EXPECT_LE(device_.backlog(), milliseconds(7)) << iteration;
  }
  EXPECT_LE(device_.idle(), milliseconds(2)) << "of 220 ms";
}

// The pause must not be taken for the time of a node.
TEST_F(RunAheadTest, APauseTeachesNothing) {
  run(300, microseconds(50), microseconds(5));
  clock_.advance(seconds(10));
  run(1, microseconds(50), microseconds(5));
  EXPECT_LE(ahead_.node_time(), microseconds(50));
}

// Of bytes that are on their way, say: nodes are as short afterwards as they were, so their lane is
// not held at every one of them.
TEST_F(RunAheadTest, AStreamThatWaitsForOthersTeachesNothing) {
  run(2'000, microseconds(20), microseconds(5));
  ASSERT_EQ(ahead_.node_time(), microseconds(20));
  for (int piece = 0; piece < 10; ++piece) {
    device_.enqueue(milliseconds(5));  // somebody else's work
    ahead_.stream_waits();
    run(20, microseconds(20), microseconds(5));
  }
  EXPECT_EQ(ahead_.node_time(), microseconds(20));
  run(500, microseconds(20), microseconds(5));
  const Duration idle = device_.idle();
  EXPECT_LE(run(2'000, microseconds(20), microseconds(5)),
            limits::kRunAhead + limits::kRunAheadMark * 3);
  EXPECT_EQ(device_.idle(), idle);
}

TEST_F(RunAheadTest, WhatTheDeviceSaysIsPassedOn) {
  run(10, microseconds(50), microseconds(5));
  device_.fail();
  Status last;
  for (uint32_t i = 0; i < limits::kMaxNodesPerMark && last.ok(); ++i) {
    last = ahead_.node_enqueued();
  }
  ASSERT_FALSE(last.ok());
  EXPECT_EQ(last.error().message, "the device is on fire");
}

}  // namespace
}  // namespace laneway::adaptor
