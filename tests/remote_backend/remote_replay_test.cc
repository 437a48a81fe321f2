// Shows that iterations on a device that is not the host leave the host's bits, whether they run
// node by node, are recorded or replayed: outputs, state and random numbers, iteration by
// iteration, on a step that draws. That a device which refuses to record, at any node or at the
// end, costs nothing but the replay, as does a recorded iteration that leaves its plan; and that an
// iteration may be given up in either.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adaptor/device/limits.h"
#include "adaptor/host/host_backend.h"
#include "tests/adaptor/graph_rig.h"
#include "tests/adaptor/replay_rig.h"
#include "tests/remote_backend/remote_backend.h"
#include "tests/remote_backend/remote_recording.h"

namespace laneway::testing {
namespace {

Left run(ReplayJob& job, int number) {
  const NoisyBatch batch(number);
  return job.run(batch.inputs(), batch.outputs());
}

std::unique_ptr<ReplayJob> noisy_job(std::unique_ptr<adaptor::Backend> backend) {
  return std::make_unique<ReplayJob>(std::move(backend), noisy_step(), noisy_slots());
}

using ::testing::HasSubstr;

constexpr int kBefore = ReplayJob::kBefore;
constexpr uint64_t kReplays = 5;
constexpr int kIterations = kBefore + static_cast<int>(kReplays);

class RemoteReplay : public ::testing::Test {
 protected:
  ~RemoteReplay() override { RemoteRecording::refuse(RemoteRecording::kNever); }
  // Runs both, and compares after every iteration.
  void expect_equal_runs(int from, int to) {
    for (int i = from; i < to; ++i) {
      const Left expected = run(*host_, i);
      const Left left = run(*remote_, i);
      EXPECT_EQ(left.outputs, expected.outputs) << "iteration " << i;
      EXPECT_EQ(left.image, expected.image) << "iteration " << i;
      EXPECT_EQ(left.random, expected.random) << "iteration " << i;
    }
  }
  uint64_t replayed() { return remote_->graph().replayed(); }

  // Runs the nodes before `node` of an iteration that is then given up.
  void abandon_at(size_t node) {
    const NoisyBatch batch(100);
    remote_->abandon_at(node, batch.inputs());
  }

  const std::unique_ptr<ReplayJob> host_ = noisy_job(std::make_unique<adaptor::HostBackend>());
  const std::unique_ptr<ReplayJob> remote_ = noisy_job(open_remote_backend().value());
};

TEST_F(RemoteReplay, IsNotDoneUnlessItIsAllowed) {
  expect_equal_runs(0, kIterations);
  EXPECT_EQ(replayed(), 0U);
}

TEST_F(RemoteReplay, LeavesTheBitsOfTheHost) {
  remote_->graph().allow_replay(true);
  expect_equal_runs(0, kIterations);
  EXPECT_EQ(replayed(), kReplays);
}

TEST_F(RemoteReplay, EndsWhenItIsNoLongerAllowedAndGoesOnLater) {
  remote_->graph().allow_replay(true);
  expect_equal_runs(0, kIterations);
  remote_->graph().allow_replay(false);
  expect_equal_runs(kIterations, kIterations + 2);
  EXPECT_EQ(replayed(), kReplays);
  remote_->graph().allow_replay(true);
  expect_equal_runs(kIterations + 2, kIterations + 4);
  EXPECT_EQ(replayed(), kReplays + 2);
}

// A recording holds on to the stream of its lane, and to what libraries keep for that.
TEST_F(RemoteReplay, IsNotDoneInAnotherLaneAtTheSameAddress) {
  remote_->graph().allow_replay(true);
  expect_equal_runs(0, kIterations);
  const int started = RemoteRecording::started();
  remote_->change_lane();
  const int plainly = kIterations + static_cast<int>(limits::kReplayAfter);
  expect_equal_runs(kIterations, plainly);
  EXPECT_EQ(replayed(), kReplays);
  expect_equal_runs(plainly, plainly + 3);
  EXPECT_EQ(RemoteRecording::started(), started + 1);
  EXPECT_EQ(replayed(), kReplays + 2) << "one is recorded there, two replayed";
}

TEST_F(RemoteReplay, AnIterationMayBeGivenUpAtAnyNode) {
  remote_->graph().allow_replay(true);
  expect_equal_runs(0, kBefore - 1);
  const size_t nodes = remote_->graph().runner().first_write();
  for (size_t node = 0; node <= nodes; ++node) {
    abandon_at(node);  // would be recorded
  }
  expect_equal_runs(kBefore - 1, kIterations);
  EXPECT_EQ(replayed(), kReplays);
  for (size_t node = 0; node <= nodes; ++node) {
    abandon_at(node);  // would be replayed
  }
  expect_equal_runs(kIterations, kIterations + 2);
  EXPECT_EQ(replayed(), kReplays + 2);
}

// The recording's outputs and values may lie anywhere in the lane that it was made in.
TEST_F(RemoteReplay, IsNotDoneInALaneOfAnotherSize) {
  remote_->graph().allow_replay(true);
  expect_equal_runs(0, kIterations);
  remote_->resize_lane(mib(1));
  expect_equal_runs(kIterations, kIterations + 1);
  EXPECT_EQ(replayed(), kReplays);
  remote_->resize_lane(ReplayJob::kLaneSize);
  expect_equal_runs(kIterations + 1, kIterations + 2);
  EXPECT_EQ(replayed(), kReplays + 1);
}

TEST(RemoteReplayRefusals, CostNothingButTheReplay) {
  std::vector<int> where{RemoteRecording::kAtEnd};
  for (int call = 0; call < 10; ++call) where.push_back(call);
  for (const int refused : where) {
    SCOPED_TRACE("refused: " + std::to_string(refused));
    const auto host = noisy_job(std::make_unique<adaptor::HostBackend>());
    const auto remote = noisy_job(open_remote_backend().value());
    remote->graph().allow_replay(true);
    const int started = RemoteRecording::started();
    RemoteRecording::refuse(refused);
    for (int i = 0; i < kIterations; ++i) EXPECT_EQ(run(*remote, i), run(*host, i)) << i;
    RemoteRecording::refuse(RemoteRecording::kNever);
    EXPECT_EQ(RemoteRecording::started(), started + 1) << "a refusal is for good";
    EXPECT_EQ(remote->graph().replayed(), 0U);
    EXPECT_TRUE(remote->is_on_first_plan());
    const adaptor::Recordings& recordings = remote->graph().recordings();
    EXPECT_EQ(recordings.made, 0U);
    const bool at_end = refused == RemoteRecording::kAtEnd;
    EXPECT_THAT(recordings.refused, HasSubstr(at_end ? "as was asked for" : "cannot be recorded"));
    EXPECT_THAT(recordings.refused, HasSubstr(at_end ? "the end" : "(aten::")) << "the node";
  }
}

// What is refused inside the commit phase, where nothing has been written yet, runs again on its
// plan: by best fit it would need more.
TEST(RemoteReplayRefusals, CostNothingInALaneThatIsAsLargeAsThePlan) {
  std::vector<int> where{RemoteRecording::kAtEnd};
  for (int call = 0; call < 10; ++call) where.push_back(call);
  for (const int refused : where) {
    SCOPED_TRACE("refused: " + std::to_string(refused));
    const auto host = noisy_job(std::make_unique<adaptor::HostBackend>());
    const auto remote = noisy_job(open_remote_backend().value());
    remote->graph().allow_replay(true);
    RemoteRecording::refuse(refused);
    for (int i = 0; i < kIterations; ++i) {
      EXPECT_EQ(run(*remote, i), run(*host, i)) << i;
      if (i == 0) remote->resize_lane(remote->plan_peak());
    }
    RemoteRecording::refuse(RemoteRecording::kNever);
    EXPECT_TRUE(remote->is_on_first_plan());
    EXPECT_FALSE(remote->graph().recordings().refused.empty());
  }
}

class RemoteReplaySpoilt : public ::testing::TestWithParam<int> {
 protected:
  ~RemoteReplaySpoilt() override { RemoteRecording::spoil(RemoteRecording::kNever, 0); }
  // So many recordings are spoilt.
  void run_both(int spoilt, int iterations) {
    remote_->graph().allow_replay(true);
    started_ = RemoteRecording::started();
    RemoteRecording::spoil(GetParam(), spoilt);
    for (int i = 0; i < iterations; ++i) EXPECT_EQ(run(*remote_, i), run(*host_, i)) << i;
    started_ = RemoteRecording::started() - started_;
    EXPECT_TRUE(remote_->is_on_first_plan());
  }

  const std::unique_ptr<ReplayJob> host_ = noisy_job(std::make_unique<adaptor::HostBackend>());
  const std::unique_ptr<ReplayJob> remote_ = noisy_job(open_remote_backend().value());
  int started_ = 0;
};

// The iteration whose recording is spoilt counts as one of the plain ones before the next.
TEST_P(RemoteReplaySpoilt, ItIsMadeAgainLater) {
  constexpr int kSpoilt = static_cast<int>(limits::kRecordAgain);
  run_both(kSpoilt, kBefore + kSpoilt * static_cast<int>(limits::kReplayAfter) + 4);
  EXPECT_EQ(started_, kSpoilt + 1);
  EXPECT_EQ(remote_->graph().replayed(), 4U);
  const uint64_t nodes = remote_->graph().graph().nodes.size();
  const adaptor::Recordings once{.made = 1, .nodes = nodes, .refused = ""};
  EXPECT_EQ(remote_->graph().recordings(), once);
}

TEST_P(RemoteReplaySpoilt, ItIsRefusedWithTheReasonWhereItIsSpoiltEachTime) {
  run_both(1000, 10 * kBefore);
  EXPECT_EQ(started_, 1 + static_cast<int>(limits::kRecordAgain));
  EXPECT_EQ(remote_->graph().replayed(), 0U);
  EXPECT_EQ(remote_->graph().recordings().made, 0U);
  EXPECT_THAT(remote_->graph().recordings().refused, HasSubstr("other threads spoilt 4"));
  EXPECT_THAT(remote_->graph().recordings().refused, HasSubstr("was spoilt")) << "the last words";
}

INSTANTIATE_TEST_SUITE_P(Places, RemoteReplaySpoilt,
                         ::testing::Values(0, 3, RemoteRecording::kAtEnd));

// The first launch, and one of a recording that was launched before.
TEST(RemoteReplayRefusals, ComeOfALaunchThatFails) {
  for (const int before : {kBefore - 1, kBefore + 2}) {
    const auto host = noisy_job(std::make_unique<adaptor::HostBackend>());
    const auto remote = noisy_job(open_remote_backend().value());
    remote->graph().allow_replay(true);
    for (int i = 0; i < kIterations; ++i) {
      RemoteRecording::fail_launches(i == before ? 1 : 0);
      EXPECT_EQ(run(*remote, i), run(*host, i)) << i;
    }
    EXPECT_EQ(remote->graph().replayed(), static_cast<uint64_t>(before < kBefore ? 0 : 2));
    EXPECT_TRUE(remote->is_on_first_plan());
    EXPECT_THAT(remote->graph().recordings().refused, HasSubstr("a launch fails"));
  }
}

// Neither a recorded node that allocates otherwise than the plan, nor one that finds no room, has
// the job leave its plan or the lane grow.
TEST(RemoteReplayRefusals, ComeOfARecordingThatLeavesItsPlan) {
  for (int call = 0; call < 6; ++call) {
    SCOPED_TRACE("allocates more: " + std::to_string(call));
    const auto host = noisy_job(std::make_unique<adaptor::HostBackend>());
    const auto remote = noisy_job(open_remote_backend().value());
    remote->graph().allow_replay(true);
    RemoteRecording::allocate_more(call);
    for (int i = 0; i < kIterations; ++i) EXPECT_EQ(run(*remote, i), run(*host, i)) << i;
    RemoteRecording::allocate_more(RemoteRecording::kNever);
    EXPECT_TRUE(remote->is_on_first_plan());
    EXPECT_EQ(remote->graph().replayed(), 0U);
    EXPECT_THAT(remote->graph().recordings().refused, HasSubstr("allocates otherwise"));
  }
}

TEST(RemoteReplayRefusals, ComeOfARecordedNodeWithoutRoom) {
  const auto inputs = static_cast<uint64_t>(NoisyBatch(0).inputs().size());
  for (uint64_t allocation = inputs; allocation < inputs + 6; ++allocation) {
    SCOPED_TRACE("without room: " + std::to_string(allocation));
    const auto host = noisy_job(std::make_unique<adaptor::HostBackend>());
    const auto remote = noisy_job(open_remote_backend().value());
    remote->graph().allow_replay(true);
    for (int i = 0; i < kIterations; ++i) {
      if (i == kBefore - 1) remote->refuse_allocation(allocation);
      EXPECT_EQ(run(*remote, i), run(*host, i)) << i;
    }
    EXPECT_TRUE(remote->is_on_first_plan());
    EXPECT_EQ(remote->graph().replayed(), 0U);
    EXPECT_THAT(remote->graph().recordings().refused, HasSubstr("does not fit the lane"));
  }
}

}  // namespace
}  // namespace laneway::testing
