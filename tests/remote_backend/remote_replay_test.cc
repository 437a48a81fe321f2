// Shows that iterations on a device that is not the host leave the host's bits, whether they run
// node by node, are recorded or replayed: outputs, state and random numbers, iteration by
// iteration, on a step that draws. That a device which refuses to record, at any node or at the
// end, costs nothing but the replay; and that an iteration may be given up in either.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "adaptor/host_backend.h"
#include "adaptor/lane_scope.h"
#include "adaptor/torch_job.h"
#include "base/limits.h"
#include "lanes/executor.h"
#include "lanes/graph/graph_codec.h"
#include "memory/planner.h"
#include "tests/adaptor/graph_rig.h"
#include "tests/remote_backend/remote_backend.h"
#include "tests/remote_backend/remote_recording.h"

namespace laneway::testing {
namespace {

constexpr Bytes kImage = mib(1);
constexpr Bytes kLane = mib(2);

class AlwaysGo final : public lanes::ExecutorHooks {
 public:
  void wait(uint32_t, size_t) override {}
  lanes::CommitDecision enter_commit_phase(size_t) override { return lanes::CommitDecision::go; }
};

// What one iteration leaves.
struct Left {
  float loss = 0;
  std::vector<float> dropped;
  std::vector<std::byte> image;
  std::vector<std::byte> random;
  friend bool operator==(const Left&, const Left&) = default;
};

// noisy_step as a job of a backend, in a lane of its own.
class Job {
 public:
  explicit Job(std::unique_ptr<adaptor::Backend> backend)
      : backend_(std::move(backend)),
        pool_(backend_->device().allocate_pool(kImage + kLane).value()),
        lane_(backend_->make_lane().value()),
        arena_(backend_->alignment()) {
    auto made = adaptor::TorchJob::make(*backend_, noisy_slots(), lanes::encode_graph(noisy_step()),
                                        kImage + kLane);
    job_ = std::move(made.value().job);
    graph_ = std::move(made.value().graph);
    for (uint32_t slot = 0; slot < job_->layout().slot_count(); ++slot) {
      std::vector<float> numbers(job_->layout().slot(slot).bytes / sizeof(float));
      for (size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = static_cast<float>((i + slot) % 7) * 0.25F - 0.5F;
      }
      EXPECT_TRUE(backend_->pool_access().write(place(slot), numbers.data(), bytes(slot)));
    }
    job_->bind_image(pool_->data());
    arena_.bind(pool_->data() + kImage.count(), kLane);
  }

  adaptor::TorchGraph& graph() { return *graph_; }

  Left run(int number) {
    const NoisyBatch batch(number);
    {
      const adaptor::LaneScope scope(*lane_, arena_, graph_->graph().context);
      begin();
      AlwaysGo hooks;
      lanes::ControlWord word;
      const auto report =
          lanes::Executor(graph_->runner(), word, hooks).run(batch.inputs(), batch.outputs());
      EXPECT_EQ(report.outcome, lanes::IterationOutcome::completed) << report.error.message;
      const auto flight = graph_->runner().take_flight();
      learn(arena_.end());
      if (flight != nullptr) {
        EXPECT_TRUE(flight->land());
      }
    }
    Left left{batch.loss(), batch.dropped(), {}, job_->random_state()};
    for (uint32_t slot = 0; slot < job_->layout().slot_count(); ++slot) {
      std::vector<std::byte> read(static_cast<size_t>(bytes(slot).count()));
      EXPECT_TRUE(backend_->pool_access().read(read.data(), place(slot), bytes(slot)));
      left.image.insert(left.image.end(), read.begin(), read.end());
    }
    return left;
  }

  // Runs the nodes before `node` and gives up.
  void abandon_at(size_t node, int number) {
    const NoisyBatch batch(number);
    const adaptor::LaneScope scope(*lane_, arena_, graph_->graph().context);
    begin();
    ASSERT_TRUE(graph_->runner().begin(batch.inputs()));
    for (size_t i = 0; i < node; ++i) {
      ASSERT_EQ(graph_->runner().run_node(i), lanes::NodeOutcome::done);
    }
    graph_->runner().abandon();
    EXPECT_EQ(arena_.abandon().live_count, 0U);
  }

 private:
  std::byte* place(uint32_t slot) { return pool_->data() + job_->layout().offset(slot).count(); }
  Bytes bytes(uint32_t slot) const {
    return Bytes(static_cast<int64_t>(job_->layout().slot(slot).bytes));
  }
  void begin() {
    if (plan_ == nullptr) {
      arena_.begin_probe();
    } else {
      arena_.begin_planned(plan_);
    }
  }
  void learn(memory::LaneArena::Use use) {
    EXPECT_EQ(use.live_count, 0U);
    if (!use.tape) return;
    EXPECT_TRUE(plan_ == nullptr || use.went_off_tape);
    memory::Plan plan = memory::plan_tape(*use.tape, {.alignment = arena_.alignment()});
    plan_ = memory::make_planned_tape(std::move(*use.tape), std::move(plan));
  }

  std::unique_ptr<adaptor::Backend> backend_;
  std::unique_ptr<memory::MemoryBlock> pool_;
  std::unique_ptr<adaptor::DeviceLane> lane_;
  memory::LaneArena arena_;
  std::unique_ptr<adaptor::TorchJob> job_;
  std::unique_ptr<adaptor::TorchGraph> graph_;
  std::shared_ptr<const memory::PlannedTape> plan_;
};

// The probe, those that are counted, the recorded one.
constexpr uint64_t kBefore = 1 + limits::kReplayAfter + 1;
constexpr uint64_t kReplays = 5;
constexpr int kIterations = static_cast<int>(kBefore + kReplays);

class RemoteReplay : public ::testing::Test {
 protected:
  ~RemoteReplay() override { RemoteRecording::refuse(RemoteRecording::kNever); }
  // Runs both, and compares after every iteration.
  void expect_equal_runs(int from, int to) {
    for (int i = from; i < to; ++i) {
      const Left expected = host_.run(i);
      const Left left = remote_.run(i);
      EXPECT_EQ(left.loss, expected.loss) << "iteration " << i;
      EXPECT_EQ(left.dropped, expected.dropped) << "iteration " << i;
      EXPECT_EQ(left.image, expected.image) << "iteration " << i;
      EXPECT_EQ(left.random, expected.random) << "iteration " << i;
    }
  }
  uint64_t replayed() { return remote_.graph().replayed(); }

  Job host_{std::make_unique<adaptor::HostBackend>()};
  Job remote_{open_remote_backend().value()};
};

TEST_F(RemoteReplay, IsNotDoneUnlessItIsAllowed) {
  expect_equal_runs(0, kIterations);
  EXPECT_EQ(replayed(), 0U);
}

TEST_F(RemoteReplay, LeavesTheBitsOfTheHost) {
  remote_.graph().allow_replay(true);
  expect_equal_runs(0, kIterations);
  EXPECT_EQ(replayed(), kReplays);
}

TEST_F(RemoteReplay, EndsWhenItIsNoLongerAllowedAndGoesOnLater) {
  remote_.graph().allow_replay(true);
  expect_equal_runs(0, kIterations);
  remote_.graph().allow_replay(false);
  expect_equal_runs(kIterations, kIterations + 2);
  EXPECT_EQ(replayed(), kReplays);
  remote_.graph().allow_replay(true);
  expect_equal_runs(kIterations + 2, kIterations + 4);
  EXPECT_EQ(replayed(), kReplays + 2);
}

TEST_F(RemoteReplay, AnIterationMayBeGivenUpAtAnyNode) {
  remote_.graph().allow_replay(true);
  expect_equal_runs(0, static_cast<int>(kBefore) - 1);
  const size_t nodes = remote_.graph().runner().first_write();
  for (size_t node = 0; node <= nodes; ++node) {
    remote_.abandon_at(node, 100);  // would be recorded
  }
  expect_equal_runs(static_cast<int>(kBefore) - 1, kIterations);
  EXPECT_EQ(replayed(), kReplays);
  for (size_t node = 0; node <= nodes; ++node) {
    remote_.abandon_at(node, 100);  // would be replayed
  }
  expect_equal_runs(kIterations, kIterations + 2);
  EXPECT_EQ(replayed(), kReplays + 2);
}

TEST(RemoteReplayRefusals, CostNothingButTheReplay) {
  std::vector<int> where{RemoteRecording::kAtEnd};
  for (int call = 0; call < 10; ++call) where.push_back(call);
  for (const int refused : where) {
    SCOPED_TRACE("refused: " + std::to_string(refused));
    Job host(std::make_unique<adaptor::HostBackend>());
    Job remote(open_remote_backend().value());
    remote.graph().allow_replay(true);
    const int started = RemoteRecording::started();
    RemoteRecording::refuse(refused);
    for (int i = 0; i < kIterations; ++i) EXPECT_EQ(remote.run(i), host.run(i)) << i;
    RemoteRecording::refuse(RemoteRecording::kNever);
    EXPECT_EQ(RemoteRecording::started(), started + 1) << "a refusal is for good";
    EXPECT_EQ(remote.graph().replayed(), 0U);
  }
}

}  // namespace
}  // namespace laneway::testing
