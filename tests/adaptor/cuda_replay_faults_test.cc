// Shows that a call of CUDA which fails while an iteration is recorded, or launched, costs nothing
// but the replay: all iterations are completed on their plan, the random state is that of a job
// which is not recorded, the reason is told, and nothing is left behind. On the fake device
// (tests/fake_cuda), for a step that is recorded as a whole and for one that is in part.
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "adaptor/cuda/cuda_backend.h"
#include "tests/adaptor/counting_step.h"
#include "tests/adaptor/replay_rig.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace laneway::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kRecorded = ReplayJob::kBefore - 1;
constexpr int kIterations = ReplayJob::kBefore + 4;

struct Fault {
  const char* call;
  int iteration = kRecorded;
  const char* told = "cudaErrorMemoryAllocation";
};

class CudaReplayFaults : public ::testing::TestWithParam<CountingForm> {
 protected:
  static std::unique_ptr<ReplayJob> make_job() {
    return std::make_unique<ReplayJob>(adaptor::CudaBackend::open(0, {}).value(),
                                       counting_step(GetParam()), counting_slots(GetParam()));
  }
  static Left run(ReplayJob& job, int number) {
    const CountingBatch batch(number, 0.5);
    return job.run(batch.inputs(), batch.outputs());
  }
  // `fault` happens before iteration `at`.
  template <typename Before>
  static void expect_only_the_replay_is_lost(int at, Before fault, const char* told) {
    const size_t complaints = fake_cuda_count("complaints");
    const auto plain = make_job();
    const auto job = make_job();
    job->graph().allow_replay(true);
    for (int i = 0; i < kIterations; ++i) {
      const Left expected = run(*plain, i);
      if (i == at) fault(*job);
      EXPECT_EQ(run(*job, i).random, expected.random) << "iteration " << i;
    }
    EXPECT_TRUE(job->is_on_first_plan());
    // Those between the recorded iteration and the fault.
    EXPECT_EQ(job->graph().replayed(), static_cast<uint64_t>(std::max(0, at - kRecorded - 1)));
    EXPECT_THAT(job->graph().recordings().refused, HasSubstr(told));
    EXPECT_EQ(fake_cuda_live("graphs"), 0U);
    EXPECT_EQ(fake_cuda_live("executables"), 0U);
    EXPECT_EQ(fake_cuda_count("complaints"), complaints);
  }
};

TEST_P(CudaReplayFaults, OfACallCostNothingButTheReplay) {
  for (const Fault& fault :
       {Fault{"cudaStreamBeginCapture"}, Fault{"cudaLaunchKernel", kRecorded, "out of memory"},
        Fault{"cudaGraphGetNodes"}, Fault{"cudaGraphNodeGetType", kRecorded, "memory of the CPU"},
        Fault{"cudaGraphInstantiateWithFlags"},
        Fault{"cuMemsetD32Async", kRecorded, "random state"},
        Fault{"cuMemsetD32Async", kRecorded + 2, "random state"}, Fault{"cudaGraphLaunch"},
        Fault{"cudaGraphLaunch", kRecorded + 2}}) {
    SCOPED_TRACE(std::string(fault.call) + " in iteration " + std::to_string(fault.iteration));
    const auto fail = [&](ReplayJob&) {
      fake_cuda_fail_calls(fault.call, CUDA_ERROR_OUT_OF_MEMORY, 1);
    };
    expect_only_the_replay_is_lost(fault.iteration, fail, fault.told);
  }
}

TEST_P(CudaReplayFaults, OfAnAllocationCostNothingButTheReplay) {
  for (const uint64_t allocation : {4, 6, 8}) {
    SCOPED_TRACE("allocation " + std::to_string(allocation));
    const auto fail = [&](ReplayJob& job) { job.refuse_allocation(allocation); };
    expect_only_the_replay_is_lost(kRecorded, fail, "does not fit the lane");
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, CudaReplayFaults,
                         ::testing::Values(CountingForm{.name = "in_part"},
                                           CountingForm{.name = "as_a_whole", .counts = false}),
                         [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace laneway::testing
