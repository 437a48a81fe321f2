// Shows that a job's generator on CUDA takes every form in which a client can have a state, that
// what it gives is a state for CPU generators too, and that it stands where it stood after a
// rewind. On the fake device (tests/fake_cuda), because torch asks for one.
#include "adaptor/cuda/cuda_generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "adaptor/cuda/cuda_random_state.h"
#include "base/limits.h"
#include "tests/adaptor/cuda_rig.h"

namespace laneway::adaptor {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(const at::Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.nbytes());
  std::memcpy(bytes.data(), tensor.const_data_ptr(), bytes.size());
  return bytes;
}

class CudaGeneratorTest : public ::testing::Test {
 protected:
  CudaGenerator& generator() { return dynamic_cast<CudaRandomState&>(*random_).implementation(); }
  // Draws so that the position moves on.
  void draw() { at::empty({1'000}, at::kCUDA).uniform_(0, 1, random_->generator()); }

  testing::CudaRig rig_;
  const std::unique_ptr<RandomState> random_ = rig_.backend().torch().make_random_state();
};

TEST_F(CudaGeneratorTest, BeginsAsTorchsDoes) {
  EXPECT_EQ(generator().position().seed, c10::default_rng_seed_val);
  EXPECT_EQ(generator().position().offset, 0u);
  EXPECT_EQ(random_->generator().device(), c10::Device(c10::DeviceType::CUDA, 0));
}

TEST_F(CudaGeneratorTest, TakesTheSeedOfACpuState) {
  at::Generator cpu = at::detail::createCPUGenerator(1'234);
  cpu.get<at::CPUGeneratorImpl>()->random();
  draw();
  ASSERT_TRUE(random_->set(bytes_of(cpu.get_state())).ok());
  EXPECT_EQ(generator().position().seed, 1'234u);
  EXPECT_EQ(generator().position().offset, 0u);
}

TEST_F(CudaGeneratorTest, TakesAStateOfTorchsCudaGenerator) {
  at::Generator torchs = at::cuda::detail::createCUDAGenerator(0);
  torchs.set_current_seed(99);
  torchs.get<at::CUDAGeneratorImpl>()->set_philox_offset_per_thread(4'096);
  ASSERT_TRUE(random_->set(bytes_of(torchs.get_state())).ok());
  EXPECT_EQ(generator().position().seed, 99u);
  EXPECT_EQ(generator().position().offset, 4'096u);
}

TEST_F(CudaGeneratorTest, WhatItGivesIsItselfAgain) {
  ASSERT_TRUE(random_->set(bytes_of(at::detail::createCPUGenerator(7).get_state())).ok());
  draw();
  const CudaGenerator::Position before = generator().position();
  ASSERT_GT(before.offset, 0u);
  const std::vector<std::byte> state = random_->get();
  EXPECT_EQ(state.size(), limits::kRandomStateBytes);
  draw();
  ASSERT_TRUE(random_->set(state).ok());
  EXPECT_EQ(generator().position().seed, before.seed);
  EXPECT_EQ(generator().position().offset, before.offset);
  EXPECT_EQ(random_->get(), state);
}

// A client may put it back into its own process.
TEST_F(CudaGeneratorTest, ACpuGeneratorTakesItAsFreshlySeeded) {
  ASSERT_TRUE(random_->set(bytes_of(at::detail::createCPUGenerator(7).get_state())).ok());
  draw();
  const std::vector<std::byte> state = random_->get();
  at::Tensor tensor = at::empty({static_cast<int64_t>(state.size())}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), state.data(), state.size());
  at::Generator cpu = at::detail::createCPUGenerator(1);
  cpu.set_state(tensor);
  EXPECT_EQ(bytes_of(cpu.get_state()), bytes_of(at::detail::createCPUGenerator(7).get_state()));
}

TEST_F(CudaGeneratorTest, RefusesWhatIsNoState) {
  draw();
  const std::vector<std::byte> before = random_->get();
  std::vector<std::byte> odd(16);
  odd[8] = std::byte{3};
  for (const auto& bytes : {std::vector<std::byte>(), std::vector<std::byte>(17),
                            std::vector<std::byte>(5'056, std::byte{0xFF}), odd}) {
    const Status refused = random_->set(bytes);
    ASSERT_FALSE(refused.ok()) << bytes.size();
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(refused.error().message, HasSubstr("random state"));
    EXPECT_EQ(random_->get(), before);
  }
}

TEST_F(CudaGeneratorTest, RewindGoesBackToTheMark) {
  draw();
  random_->mark();
  const std::vector<std::byte> before = random_->get();
  draw();
  draw();
  EXPECT_NE(random_->get(), before);
  random_->rewind();
  EXPECT_EQ(random_->get(), before);
}

// As operators of graphs read and put it back (adaptor/operators/random_operators.h).
TEST_F(CudaGeneratorTest, HasItsStateInTheSizeThatGraphsDeclare) {
  draw();
  at::Generator generator = random_->generator();
  const at::Tensor state = generator.get_state();
  EXPECT_EQ(state.device(), c10::Device(c10::DeviceType::CPU));
  EXPECT_EQ(state.numel(), static_cast<int64_t>(limits::kRandomStateBytes));
  const std::vector<std::byte> before = random_->get();
  draw();
  generator.set_state(state);
  EXPECT_EQ(random_->get(), before);
}

}  // namespace
}  // namespace laneway::adaptor
