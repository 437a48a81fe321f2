// Shows that iterations on a device that is not the host leave the host's bits, whether they run
// node by node, are recorded or replayed: outputs, state and random numbers, iteration by
// iteration, on a step that draws. That a device which refuses to record, at any node or at the
// end, costs nothing but the replay; and that an iteration may be given up in either.
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
  }
}

}  // namespace
}  // namespace laneway::testing
