// Shows that an iteration's kernels are written down once and launched as often as asked, in the
// order of the lane's stream, with the random numbers of ordinary runs; that others go on with CUDA
// meanwhile; and that a recording that fails or is given up leaves nothing behind. On the fake
// device (tests/fake_cuda).
#include "adaptor/cuda/cuda_recording.h"

#include <ATen/Context.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/relu.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/adaptor/cuda_rig.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace laneway::adaptor {
namespace {

using testing::CudaRig;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const at::TensorOptions kCuda = at::TensorOptions(at::kCUDA).dtype(at::kFloat);

// The kernels that the device ran since the last call, in their order, with their stream.
std::vector<std::string> take_kernels() {
  std::string text(1 << 20, '\0');
  fake_cuda_notes(text.data(), text.size());
  std::vector<std::string> kernels;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("run kernel");
    if (at != std::string::npos) kernels.push_back(line.substr(at));
  }
  return kernels;
}

class CudaRecordingTest : public ::testing::Test {
 protected:
  CudaRecordingTest() : random_(rig_.backend().torch().make_random_state()) {}

  // What is recorded: five kernels and a product, two of the kernels draw.
  void body() {
    const at::Tensor x = at::rand({32, 32}, random_->generator(), kCuda);
    const at::Tensor dropped = at::bernoulli(at::relu(x), random_->generator());
    at::relu(at::mm(dropped, x));
  }
  uint64_t offset() const {
    return dynamic_cast<CudaRandomState&>(*random_).implementation().position().offset;
  }
  std::unique_ptr<Recording> record() {
    std::unique_ptr<Recording> recording;
    lane_.run([&] {
      Result<std::unique_ptr<Recording>> started =
          rig_.backend().torch().start_recording(*lane_.device, *random_);
      ASSERT_TRUE(started.ok()) << started.error().message;
      recording = std::move(started).value();
      body();
      const Status ended = recording->end();
      ASSERT_TRUE(ended.ok()) << ended.error().message;
    });
    return recording;
  }

  CudaRig rig_;
  CudaRig::Lane lane_ = rig_.make_lane();
  const std::unique_ptr<RandomState> random_;
};

TEST_F(CudaRecordingTest, EachLaunchRunsTheSameKernelsOnceAndDrawsOn) {
  lane_.run([&] { body(); });
  const uint64_t each = offset();
  ASSERT_GT(each, 0u);
  fake_cuda_note(1);
  take_kernels();
  lane_.run([&] { body(); });
  const std::vector<std::string> expected = take_kernels();
  ASSERT_GE(expected.size(), 4u);
  const std::unique_ptr<Recording> recording = record();
  EXPECT_THAT(take_kernels(), IsEmpty());
  EXPECT_EQ(offset(), 2 * each);  // writing down draws nothing
  for (int launch = 1; launch <= 3; ++launch) {
    lane_.run([&] { EXPECT_TRUE(recording->launch().ok()); });
    EXPECT_EQ(take_kernels(), expected) << "launch " << launch;
    EXPECT_EQ(offset(), (2 + launch) * each);
  }
  lane_.run([&] { body(); });  // and node by node again
  EXPECT_EQ(take_kernels(), expected);
  EXPECT_EQ(offset(), 6 * each);
  fake_cuda_note(0);
}

// Where a kernel reads its seed and offset from, while it is written down. They travel in the
// calls: a copy from the stack could be read when the stream comes to it.
TEST_F(CudaRecordingTest, SeedAndOffsetAreSentBeforeEachLaunchAndFromNoMemoryOfTheCpu) {
  const std::unique_ptr<Recording> recording = record();
  auto& cuda = dynamic_cast<CudaRandomState&>(*random_);
  const auto address = reinterpret_cast<uint64_t>(cuda.recorded_position().const_data_ptr());
  const size_t copies = fake_cuda_count("cudaMemcpyAsync") + fake_cuda_count("cuMemcpyHtoDAsync");
  for (const CudaGenerator::Position position : {CudaGenerator::Position{1, 8},
                                                 {1, 12},
                                                 {uint64_t{7} << 40 | 1, uint64_t{1} << 33},
                                                 {2, 0}}) {
    cuda.implementation().set_position(position);
    lane_.run([&] { EXPECT_TRUE(recording->launch().ok()); });
    uint64_t sent[2] = {};
    ASSERT_TRUE(fake_cuda_peek(sent, address, sizeof(sent)));
    EXPECT_EQ(sent[0], position.seed);
    EXPECT_EQ(sent[1], position.offset);
    EXPECT_GT(offset(), position.offset);
  }
  EXPECT_EQ(fake_cuda_count("cudaMemcpyAsync") + fake_cuda_count("cuMemcpyHtoDAsync"), copies);
  EXPECT_FALSE(lane_.arena->contains(cuda.recorded_position().const_data_ptr()));
}

TEST_F(CudaRecordingTest, APositionThatWasNotSentIsSentAgain) {
  const std::unique_ptr<Recording> recording = record();
  auto& cuda = dynamic_cast<CudaRandomState&>(*random_);
  cuda.implementation().set_position({3, 4});
  fake_cuda_fail_calls("cuMemsetD32Async", CUDA_ERROR_UNKNOWN, 1);
  lane_.run([&] {
    const Status launched = recording->launch();
    ASSERT_FALSE(launched.ok());
    EXPECT_THAT(launched.error().message, HasSubstr("sending a job's random state"));
    EXPECT_EQ(offset(), 4u);
    EXPECT_TRUE(recording->launch().ok());
  });
  uint64_t sent[2] = {};
  ASSERT_TRUE(fake_cuda_peek(
      sent, reinterpret_cast<uint64_t>(cuda.recorded_position().const_data_ptr()), sizeof(sent)));
  EXPECT_EQ(sent[0], 3u);
  EXPECT_EQ(sent[1], 4u);
}

// What was recorded under another precision would have it in every launch.
TEST_F(CudaRecordingTest, SettingsThatAnotherThreadChangesMeanwhileRefuseIt) {
  at::Context& torch = at::globalContext();
  lane_.run([&] {
    auto recording = rig_.backend().torch().start_recording(*lane_.device, *random_).value();
    std::thread([&] { torch.setFloat32MatmulPrecision("high"); }).join();
    body();
    const Status ended = recording->end();
    ASSERT_FALSE(ended.ok());
    EXPECT_THAT(ended.error().message, HasSubstr("another thread changed torch's settings"));
    EXPECT_TRUE(recording->is_spoilt(ended.error().message));
  });
  EXPECT_EQ(torch.float32MatmulPrecision(), at::Float32MatmulPrecision::HIGH);
  const std::unique_ptr<Recording> next = record();  // under the graph's own again
  lane_.run([&] { EXPECT_TRUE(next->launch().ok()); });
  torch.setFloat32MatmulPrecision("highest");
}

TEST_F(CudaRecordingTest, TheUsersThreadsDrawAndAllocateMeanwhile) {
  at::rand({4}, kCuda);  // the default generator is there
  lane_.run([&] {
    auto recording = rig_.backend().torch().start_recording(*lane_.device, *random_).value();
    std::thread([] {
      at::relu(at::rand({1'000}, kCuda));
      void* memory = nullptr;
      EXPECT_EQ(cudaMalloc(&memory, 1'000), cudaSuccess);
      EXPECT_EQ(cudaFree(memory), cudaSuccess);
    }).join();
    body();
    EXPECT_TRUE(recording->end().ok());
  });
}

TEST_F(CudaRecordingTest, TwoLanesRecordAtTheSameTime) {
  CudaRig::Lane other = rig_.make_lane();
  const auto random = rig_.backend().torch().make_random_state();
  lane_.run([&] {
    auto first = rig_.backend().torch().start_recording(*lane_.device, *random_).value();
    std::thread([&] {
      other.run([&] {
        auto second = rig_.backend().torch().start_recording(*other.device, *random).value();
        at::bernoulli(at::empty({8, 8}, kCuda), random->generator());
        EXPECT_TRUE(second->end().ok());
        EXPECT_TRUE(second->launch().ok());
      });
    }).join();
    body();
    EXPECT_TRUE(first->end().ok());
    EXPECT_TRUE(first->launch().ok());
  });
}

TEST_F(CudaRecordingTest, OneThatIsGivenUpLeavesTheLaneAsItWas) {
  lane_.run([&] { body(); });
  const uint64_t before = offset();
  random_->mark();
  lane_.run([&] {
    auto recording = rig_.backend().torch().start_recording(*lane_.device, *random_).value();
    body();
    recording.reset();
    random_->rewind();
  });
  EXPECT_EQ(offset(), before);
  lane_.run([&] { body(); });
  EXPECT_EQ(offset(), 2 * before);
  EXPECT_EQ(fake_cuda_live("graphs"), 0u);
}

// An iteration that is given up may rewind before its recording goes.
TEST_F(CudaRecordingTest, ItsRandomStateIsNeitherReadNorSetMeanwhileButRewound) {
  random_->mark();
  lane_.run([&] { body(); });
  lane_.run([&] {
    auto recording = rig_.backend().torch().start_recording(*lane_.device, *random_).value();
    at::Generator generator = random_->generator();
    EXPECT_THROW((void)generator.get_state(), c10::Error);
    EXPECT_THROW(generator.set_state(at::empty({16}, at::kByte)), c10::Error);
    body();
    random_->rewind();
  });
  EXPECT_EQ(offset(), 0u);
}

TEST_F(CudaRecordingTest, WhatCannotBeWrittenDownIsSaid) {
  lane_.run([&] {
    auto recording = rig_.backend().torch().start_recording(*lane_.device, *random_).value();
    EXPECT_NE(cudaStreamSynchronize(lane_.cuda().native()), cudaSuccess);
    const Status ended = recording->end();
    ASSERT_FALSE(ended.ok());
    EXPECT_EQ(ended.error().code, ErrorCode::failed);
    EXPECT_THAT(ended.error().message, HasSubstr("recording a CUDA graph"));
  });
  lane_.run([&] { body(); });
  EXPECT_TRUE(rig_.backend().health().ok());
}

// The user's thread hears CUDA's own error; the next recording succeeds.
TEST_F(CudaRecordingTest, AWaitForTheWholeDeviceByAnotherThreadSpoilsIt) {
  lane_.run([&] {
    for (const bool node_fails : {false, true}) {
      auto recording = rig_.backend().torch().start_recording(*lane_.device, *random_).value();
      body();
      EXPECT_FALSE(recording->is_spoilt("whatever"));
      std::thread([] {
        EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
      }).join();
      std::string fault;
      if (node_fails) {
        try {
          body();
        } catch (const c10::Error& error) {
          fault = error.what_without_backtrace();
        }
        EXPECT_THAT(fault, HasSubstr("cudaErrorStreamCaptureInvalidated"));
      } else {
        fault = recording->end().error().message;
      }
      EXPECT_TRUE(recording->is_spoilt(fault)) << fault;
    }
  });
  record();
}

TEST_F(CudaRecordingTest, AForbiddenCallOfItsOwnThreadDoesNotCountAsSpoiling) {
  lane_.run([&] {
    auto recording = rig_.backend().torch().start_recording(*lane_.device, *random_).value();
    body();
    const cudaError_t refused = cudaStreamSynchronize(lane_.cuda().native());
    ASSERT_EQ(refused, cudaErrorStreamCaptureUnsupported);
    EXPECT_FALSE(recording->is_spoilt(cudaGetErrorString(refused)));
  });
}

// Each launch would read them again.
TEST_F(CudaRecordingTest, NumbersOfTheCpusAreNotWrittenDown) {
  std::vector<float> numbers(16, 1.0f);
  for (const bool up : {true, false}) {
    lane_.run([&] {
      const at::Tensor x = at::empty({16}, kCuda);
      auto recording = rig_.backend().torch().start_recording(*lane_.device, *random_).value();
      void* const to = up ? x.mutable_data_ptr() : numbers.data();
      const void* const from = up ? numbers.data() : x.const_data_ptr();
      ASSERT_EQ(cudaMemcpyAsync(to, from, 64, cudaMemcpyDefault, lane_.cuda().native()),
                cudaSuccess);
      const Status ended = recording->end();
      ASSERT_FALSE(ended.ok());
      EXPECT_THAT(ended.error().message, HasSubstr("memory of the CPU"));
    });
  }
  lane_.run([&] {
    const at::Tensor x = at::empty({16}, kCuda);
    auto recording = rig_.backend().torch().start_recording(*lane_.device, *random_).value();
    const at::Tensor copy = x.clone();
    EXPECT_TRUE(recording->end().ok());
    EXPECT_TRUE(recording->launch().ok());
  });
  EXPECT_EQ(fake_cuda_live("graphs"), 0u);
}

TEST_F(CudaRecordingTest, ItMayGoWhenItsMemoryIsSomebodyElses) {
  std::unique_ptr<Recording> recording = record();
  lane_.run([&] { EXPECT_TRUE(recording->launch().ok()); });
  lane_.arena->bind(rig_.pool(), Bytes(4'096));
  recording.reset();
  EXPECT_EQ(fake_cuda_live("executables"), 0u);
  EXPECT_EQ(fake_cuda_live("graphs"), 0u);
}

}  // namespace
}  // namespace laneway::adaptor
