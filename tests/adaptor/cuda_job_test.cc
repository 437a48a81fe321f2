// Shows that whole iterations of a job run in a lane of a CUDA device: planned at stable addresses,
// with nothing left alive, given up at any node without a trace, several jobs beside each other,
// and that a device that fails is told as such. torch's real CUDA side on the fake device
// (tests/fake_cuda): what is computed means nothing here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "adaptor/cuda/cuda_workspaces.h"
#include "adaptor/device/limits.h"
#include "adaptor/run/torch_job.h"
#include "adaptor/scope/lane_scope.h"
#include "lanes/graph/graph_codec.h"
#include "lanes/run/executor.h"
#include "memory/planned_tape.h"
#include "memory/planner.h"
#include "tests/adaptor/counting_step.h"
#include "tests/adaptor/cuda_rig.h"
#include "tests/adaptor/graph_rig.h"
#include "tests/adaptor/replay_rig.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace laneway::adaptor {
namespace {

using lanes::IterationOutcome;
using testing::CudaRig;
using testing::NoisyBatch;

// Lets every iteration go on; `meanwhile` happens once, in the middle of it.
class AlwaysGo final : public lanes::ExecutorHooks {
 public:
  explicit AlwaysGo(std::function<void()> meanwhile) : meanwhile_(std::move(meanwhile)) {}
  void pause(size_t) override {}
  lanes::CommitDecision enter_commit_phase(size_t) override {
    if (meanwhile_) meanwhile_();
    return lanes::CommitDecision::go;
  }

 private:
  const std::function<void()> meanwhile_;
};

// A job of noisy_step in a lane of its own.
class JobInLane {
 public:
  explicit JobInLane(CudaRig& rig) : lane_(rig.make_lane()) {
    Result<TorchJob::Made> made =
        TorchJob::make(rig.backend(), testing::noisy_slots(),
                       lanes::encode_graph(testing::noisy_step()), CudaRig::kLaneSize,
                       /*known=*/nullptr);
    LW_CHECK(made.ok(), made.ok() ? "" : made.error().message);
    job_ = std::move(made.value().job);
    graph_ = std::move(made.value().graph);
    image_ = rig.backend().device().allocate_pool(mib(2)).value();
    job_->bind_image(image_->data());
  }

  TorchJob& job() { return *job_; }
  TorchGraph& graph() { return *graph_; }
  CudaRig::Lane& lane() { return lane_; }
  const memory::LaneArena::Use& use() const { return use_; }
  uint64_t address_hash() const { return address_hash_; }

  // A probe the first time, then planned.
  lanes::IterationReport run(int number, std::function<void()> meanwhile = {}) {
    NoisyBatch batch(number);
    std::unique_ptr<lanes::EnqueuedIteration> enqueued;
    lanes::IterationReport report;
    {
      const LaneScope scope(*lane_.device, *lane_.arena, graph_->graph().context);
      begin();
      AlwaysGo hooks(std::move(meanwhile));
      lanes::ControlWord word;
      report = lanes::Executor(graph_->runner(), word, hooks).run(batch.inputs(), batch.outputs());
      const bool completed = report.outcome == IterationOutcome::completed;
      use_ = completed ? lane_.arena->end() : lane_.arena->abandon();
      address_hash_ = scope.address_hash();
      if (completed) enqueued = lane_.device->enqueue();
    }
    if (enqueued != nullptr) {
      if (const Status retired = enqueued->retire(); !retired) report.error = retired.error();
    }
    if (use_.tape) {
      plan_ = memory::make_planned_tape(
          *use_.tape, memory::plan_tape(*use_.tape, {.alignment = lane_.arena->alignment()}));
    }
    return report;
  }

  // Its lane goes, and another one comes into the same memory.
  void change_lane(CudaRig& rig) {
    lane_.device.reset();
    lane_.device = rig.backend().make_lane().value();
  }

  void abandon_at(size_t node) {
    NoisyBatch batch(1);
    const LaneScope scope(*lane_.device, *lane_.arena, graph_->graph().context);
    begin();
    ASSERT_TRUE(graph_->runner().begin(batch.inputs()).ok());
    for (size_t i = 0; i < node; ++i) {
      ASSERT_EQ(graph_->runner().run_node(i), lanes::NodeOutcome::done);
    }
    graph_->runner().abandon();
    use_ = lane_.arena->abandon();
  }

 private:
  void begin() {
    if (plan_ == nullptr) {
      lane_.arena->begin_probe();
    } else {
      lane_.arena->begin_planned(plan_);
    }
  }

  CudaRig::Lane lane_;
  std::unique_ptr<TorchJob> job_;
  std::unique_ptr<TorchGraph> graph_;
  std::unique_ptr<memory::MemoryBlock> image_;
  std::shared_ptr<const memory::PlannedTape> plan_;
  memory::LaneArena::Use use_;
  uint64_t address_hash_ = 0;
};

#define ASSERT_COMPLETED(report)                                                    \
  do {                                                                              \
    const lanes::IterationReport result = report;                                   \
    ASSERT_EQ(result.outcome, IterationOutcome::completed) << result.error.message; \
    ASSERT_EQ(result.error.message, "");                                            \
  } while (false)

TEST(CudaJob, IterationsArePlannedAndLeaveNothing) {
  CudaRig rig;
  JobInLane job(rig);
  ASSERT_COMPLETED(job.run(0));
  EXPECT_TRUE(job.use().tape.has_value());
  uint64_t planned = 0;
  for (int iteration = 1; iteration < 6; ++iteration) {
    const std::vector<std::byte> before = job.job().random_state();
    ASSERT_COMPLETED(job.run(iteration));
    EXPECT_FALSE(job.use().went_off_tape) << iteration;
    EXPECT_EQ(job.use().live_count, 0u);
    EXPECT_NE(job.job().random_state(), before);
    if (planned == 0) planned = job.address_hash();
    EXPECT_EQ(job.address_hash(), planned);
  }
  EXPECT_EQ(fake_cuda_count("complaints"), 0u);
}

TEST(CudaJob, LeavesNoTraceWhenGivenUpAtAnyNode) {
  CudaRig rig;
  JobInLane job(rig);
  ASSERT_COMPLETED(job.run(0));
  const size_t first_write = job.graph().runner().first_write();
  for (size_t node = 0; node <= first_write; ++node) {
    const std::vector<std::byte> before = job.job().random_state();
    job.abandon_at(node);
    EXPECT_EQ(job.use().live_count, 0u) << node;
    EXPECT_EQ(job.job().random_state(), before) << node;
    ASSERT_COMPLETED(job.run(1));
    EXPECT_FALSE(job.use().went_off_tape) << node;
  }
}

// The stream and workspaces of the lane in which it was recorded are gone.
TEST(CudaJob, WhatIsRecordedEndsWithItsLane) {
  CudaRig rig;
  JobInLane job(rig);
  job.graph().allow_replay(true);
  for (int iteration = 0; iteration < 8; ++iteration) ASSERT_COMPLETED(job.run(1));
  const uint64_t replayed = job.graph().replayed();
  ASSERT_GT(replayed, 0u);
  job.change_lane(rig);
  ASSERT_COMPLETED(job.run(1));
  EXPECT_EQ(job.graph().replayed(), replayed);
  for (int iteration = 0; iteration < 8; ++iteration) ASSERT_COMPLETED(job.run(1));
  EXPECT_GT(job.graph().replayed(), replayed);
  EXPECT_EQ(fake_cuda_count("complaints"), 0u);
}

TEST(CudaJob, JobsRunBesideEachOther) {
  CudaRig rig;
  JobInLane first(rig);
  JobInLane second(rig);
  std::vector<std::thread> threads;
  for (JobInLane* const job : {&first, &second}) {
    threads.emplace_back([job] {
      for (int iteration = 0; iteration < 20; ++iteration) {
        ASSERT_COMPLETED(job->run(iteration));
        EXPECT_EQ(job->use().live_count, 0u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first.job().random_state(), second.job().random_state());
}

// Up to the optimizer where that counts on the CPU, else the whole of it.
TEST(CudaJob, IterationsAreReplayed) {
  using testing::ReplayJob;
  for (const bool counts : {true, false}) {
    const testing::CountingForm form{.name = "replayed", .counts = counts};
    ReplayJob job(CudaBackend::open(0, {}).value(), testing::counting_step(form),
                  testing::counting_slots(form));
    job.graph().allow_replay(true);
    for (int iteration = 0; iteration < ReplayJob::kBefore + 4; ++iteration) {
      const testing::CountingBatch batch(iteration, 0.5);
      job.run(batch.inputs(), batch.outputs());
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(job.graph().replayed(), 4U);
    EXPECT_EQ(fake_cuda_live("executables"), 1U);
    const testing::CountingBatch batch(0, 0.5);
    for (size_t node = 0; node <= job.graph().runner().first_write(); ++node) {
      job.abandon_at(node, batch.inputs());
    }
    job.run(batch.inputs(), batch.outputs());
    EXPECT_EQ(job.graph().replayed(), 5U);
  }
  EXPECT_EQ(fake_cuda_live("executables"), 0U);
  EXPECT_EQ(fake_cuda_count("complaints"), 0U);
}

class RecordedJob : public ::testing::Test {
 protected:
  // What another thread does in the middle of the iteration that is recorded.
  void run_through(const std::function<void()>& other_thread) {
    job_.graph().allow_replay(true);
    for (int iteration = 0; iteration < testing::ReplayJob::kBefore; ++iteration) {
      const bool recorded = iteration == testing::ReplayJob::kBefore - 1;
      ASSERT_COMPLETED(job_.run(
          1, recorded ? [&] { std::thread(other_thread).join(); } : std::function<void()>()));
    }
  }
  // Of so many further iterations, as many are replayed.
  void expect_replays(int iterations, uint64_t replayed) {
    const uint64_t before = job_.graph().replayed();
    for (int i = 0; i < iterations; ++i) ASSERT_COMPLETED(job_.run(1));
    EXPECT_EQ(job_.graph().replayed() - before, replayed);
    EXPECT_EQ(job_.graph().recordings().made, 1U);
    EXPECT_EQ(job_.graph().recordings().refused, "");
    EXPECT_FALSE(job_.use().went_off_tape);
  }

  CudaRig rig_;
  JobInLane job_{rig_};
};

// It runs node by node then, under the precision that was set, and is recorded again under its own.
TEST_F(RecordedJob, IsRecordedAgainWhenAnotherThreadSwitchesTf32Meanwhile) {
  at::Context& torch = at::globalContext();
  run_through([&] { torch.setFloat32MatmulPrecision("high"); });
  EXPECT_EQ(job_.graph().recordings(), Recordings{});
  expect_replays(static_cast<int>(limits::kReplayAfter) + 3, 3);
  EXPECT_EQ(torch.float32MatmulPrecision(), at::Float32MatmulPrecision::HIGH) << "the user's stays";
  torch.setFloat32MatmulPrecision("highest");
}

TEST_F(RecordedJob, IsRecordedAgainWhenAnotherThreadWaitsForTheDeviceMeanwhile) {
  run_through([] { EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported); });
  EXPECT_EQ(job_.graph().recordings(), Recordings{});
  expect_replays(static_cast<int>(limits::kReplayAfter) + 3, 3);
}

TEST_F(RecordedJob, IsRecordedWhileAnotherThreadCapturesAGraphOfItsOwn) {
  run_through([] {
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(memory, 1, 64, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
  });
  expect_replays(3, 3);
}

// A workspace that torch does not keep it does not free either, once its device is lost.
bool is_workspace(const memory::LaneArena::Use& left) {
  return !torch_keeps_workspaces() && left.live_count == 1 &&
         left.live_bytes == Bytes(static_cast<int64_t>(at::cuda::getChosenWorkspaceSize()));
}

// In a process of its own: the device does not come back.
TEST(CudaJobDeathTest, ADeviceThatIsLostWhileAnIterationIsRecordedIsTold) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        CudaRig rig;
        JobInLane job(rig);
        job.graph().allow_replay(true);
        for (int iteration = 1; iteration < testing::ReplayJob::kBefore; ++iteration) {
          if (job.run(1).outcome != IterationOutcome::completed) std::_Exit(1);
        }
        const auto report = job.run(1, [] { fake_cuda_fail(CUDA_ERROR_ASSERT); });
        if (report.outcome == IterationOutcome::completed && report.error.message.empty()) {
          std::_Exit(2);
        }
        if (job.use().live_count != 0 && !is_workspace(job.use())) std::_Exit(3);
        const Status health = rig.backend().health();
        std::_Exit(!health.ok() && health.error().code == ErrorCode::device_lost ? 0 : 4);
      },
      ::testing::ExitedWithCode(0), "");
}

// In a process of its own: the device does not come back.
TEST(CudaJobDeathTest, AKernelThatAssertsIsTheDevicesEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        CudaRig rig;
        JobInLane job(rig);
        if (job.run(0).outcome != IterationOutcome::completed) std::_Exit(1);
        fake_cuda_fail_kernel("bernoulli", CUDA_ERROR_ASSERT);
        for (int iteration = 1; iteration < 100 && rig.backend().health().ok(); ++iteration) {
          job.run(iteration);
        }
        const Status health = rig.backend().health();
        std::_Exit(!health.ok() && health.error().code == ErrorCode::device_lost ? 0 : 2);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace laneway::adaptor
