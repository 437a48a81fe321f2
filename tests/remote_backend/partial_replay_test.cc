// Shows that the first part of an iteration is recorded and replayed where the rest cannot be: a
// step whose rate depends on a counter that the CPU has, with draws, views of one memory, outputs
// and writes on either side of the place where the recording ends; and a step one of whose numbers
// changes in every iteration. The bits are the host's in each, whatever is refused or given up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adaptor/host/host_backend.h"
#include "tests/adaptor/counting_step.h"
#include "tests/adaptor/replay_rig.h"
#include "tests/remote_backend/remote_backend.h"
#include "tests/remote_backend/remote_recording.h"

namespace laneway::testing {
namespace {

constexpr int kBefore = ReplayJob::kBefore;
constexpr uint64_t kReplays = 5;
constexpr int kIterations = kBefore + static_cast<int>(kReplays);

constexpr double kRate = 0.125;

class PartialReplay : public ::testing::TestWithParam<CountingForm> {
 protected:
  PartialReplay() { remote_.graph().allow_replay(true); }
  ~PartialReplay() override { RemoteRecording::refuse(RemoteRecording::kNever); }

  static ReplayJob job(std::unique_ptr<adaptor::Backend> backend) {
    return {std::move(backend), counting_step(GetParam()), counting_slots(GetParam())};
  }
  static Left run(ReplayJob& job, int number, double rate) {
    const CountingBatch batch(number, rate);
    return job.run(batch.inputs(), batch.outputs());
  }
  void expect_equal(int number, double rate = kRate) {
    const Left expected = run(host_, number, rate);
    const Left left = run(remote_, number, rate);
    EXPECT_EQ(left.outputs, expected.outputs) << "iteration " << number;
    EXPECT_EQ(left.image, expected.image) << "iteration " << number;
    EXPECT_EQ(left.random, expected.random) << "iteration " << number;
  }
  void expect_equal_runs(int from, int to) {
    for (int i = from; i < to; ++i) expect_equal(i);
  }
  void abandon_at_every_node() {
    const CountingBatch batch(100, kRate);
    for (size_t node = 0; node <= remote_.graph().runner().first_write(); ++node) {
      remote_.abandon_at(node, batch.inputs());
    }
  }
  uint64_t replayed() { return remote_.graph().replayed(); }

  ReplayJob host_ = job(std::make_unique<adaptor::HostBackend>());
  ReplayJob remote_ = job(open_remote_backend().value());
};

TEST_P(PartialReplay, LeavesTheBitsOfTheHost) {
  expect_equal_runs(0, kIterations);
  EXPECT_EQ(replayed(), kReplays);
}

TEST_P(PartialReplay, AnIterationMayBeGivenUpAtAnyNode) {
  expect_equal_runs(0, kBefore - 1);
  abandon_at_every_node();  // would be recorded
  expect_equal_runs(kBefore - 1, kIterations);
  EXPECT_EQ(replayed(), kReplays);
  abandon_at_every_node();  // would be replayed
  expect_equal_runs(kIterations, kIterations + 2);
  EXPECT_EQ(replayed(), kReplays + 2);
}

TEST_P(PartialReplay, ANumberThatAlwaysChangesIsLeftToTheRest) {
  const auto rate = [](int number) { return kRate / (1 + number); };
  const int iterations = 4 * kBefore;
  for (int i = 0; i < iterations; ++i) expect_equal(i, rate(i));
  EXPECT_GT(replayed(), static_cast<uint64_t>(kBefore));
  const uint64_t before = replayed();
  for (int i = 0; i < 3; ++i) expect_equal(iterations + i);
  EXPECT_EQ(replayed(), before + 3) << "nor does it matter when it stays";
}

TEST_P(PartialReplay, ANumberThatChangesOnceIsRecordedAgain) {
  expect_equal_runs(0, kIterations);
  for (int i = kIterations; i < 2 * kIterations; ++i) expect_equal(i, kRate / 2);
  EXPECT_GE(replayed(), 2 * kReplays);
}

TEST_P(PartialReplay, RefusalsCostNothingButTheReplay) {
  std::vector<int> where{RemoteRecording::kAtEnd};
  for (int call = 0; call < 10; ++call) where.push_back(call);
  for (const int refused : where) {
    SCOPED_TRACE("refused: " + std::to_string(refused));
    ReplayJob host = job(std::make_unique<adaptor::HostBackend>());
    ReplayJob remote = job(open_remote_backend().value());
    remote.graph().allow_replay(true);
    const int started = RemoteRecording::started();
    RemoteRecording::refuse(refused);
    for (int i = 0; i < kIterations; ++i) {
      EXPECT_EQ(run(remote, i, kRate), run(host, i, kRate)) << "iteration " << i;
    }
    RemoteRecording::refuse(RemoteRecording::kNever);
    EXPECT_EQ(RemoteRecording::started(), started + 1) << "a refusal is for good";
    EXPECT_EQ(remote.graph().replayed(), 0U);
    EXPECT_TRUE(remote.is_on_first_plan());
    EXPECT_FALSE(remote.graph().recordings().refused.empty());
  }
}

TEST_P(PartialReplay, OneThatIsSpoiltIsMadeAgain) {
  for (const int where : {0, 2, RemoteRecording::kAtEnd}) {
    ReplayJob host = job(std::make_unique<adaptor::HostBackend>());
    ReplayJob remote = job(open_remote_backend().value());
    remote.graph().allow_replay(true);
    RemoteRecording::spoil(where, 2);
    for (int i = 0; i < 3 * kBefore; ++i) {
      EXPECT_EQ(run(remote, i, kRate), run(host, i, kRate)) << "iteration " << i;
    }
    EXPECT_EQ(remote.graph().recordings().made, 1U);
    EXPECT_GT(remote.graph().recordings().nodes, 0U);
    EXPECT_GT(remote.graph().replayed(), 0U);
    EXPECT_TRUE(remote.is_on_first_plan());
  }
}

TEST_P(PartialReplay, ALaunchThatFailsCostsNothingButTheReplay) {
  for (const int before : {kBefore - 1, kBefore + 2}) {
    ReplayJob host = job(std::make_unique<adaptor::HostBackend>());
    ReplayJob remote = job(open_remote_backend().value());
    remote.graph().allow_replay(true);
    for (int i = 0; i < kIterations; ++i) {
      RemoteRecording::fail_launches(i == before ? 1 : 0);
      EXPECT_EQ(run(remote, i, kRate), run(host, i, kRate)) << "iteration " << i;
    }
    EXPECT_TRUE(remote.is_on_first_plan());
    EXPECT_FALSE(remote.graph().recordings().refused.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, PartialReplay,
                         ::testing::Values(CountingForm{.name = "counts"},
                                           CountingForm{.name = "counts_after_a_write",
                                                        .writes_early = true},
                                           CountingForm{.name = "counts_nothing", .counts = false},
                                           CountingForm{.name = "counts_nothing_writes_early",
                                                        .counts = false,
                                                        .writes_early = true}),
                         [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace laneway::testing
