// Shows that an iteration gets the float32 precision of its graph whichever of torch's two forms
// the process uses, and that every setting of the process is afterwards what it was, or what
// another thread made of it meanwhile. Precisions are read as operators read them.
#include "adaptor/scope/float32_precision.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <thread>

#include "adaptor/scope/numeric_context.h"

namespace laneway::adaptor {
namespace {

using at::Float32Backend;
using at::Float32Op;
using Torch = at::Float32Precision;
using Precision = lanes::Float32Precision;

Torch effective(Float32Backend backend, Float32Op op) {
  return at::globalContext().float32Precision(backend, op);
}

void set(Float32Backend backend, Float32Op op, Torch precision) {
  at::globalContext().setFloat32Precision(backend, op, precision);
}

Torch cuda_matmul() { return effective(Float32Backend::CUDA, Float32Op::MATMUL); }
void set_cuda_matmul(Torch precision) { set(Float32Backend::CUDA, Float32Op::MATMUL, precision); }

lanes::NumericContext with_tf32(lanes::Float32Use use) {
  lanes::NumericContext context;
  context.float32[static_cast<size_t>(use)] = Precision::tf32;
  return context;
}

// The settings belong to the process: each test begins and ends with torch's own.
class Float32PrecisionTest : public ::testing::Test {
 protected:
  void SetUp() override { reset(); }
  void TearDown() override { reset(); }

 private:
  static void reset() {
    at::globalContext().setFloat32MatmulPrecision("highest");
    at::globalContext().setAllowTF32CuDNN(true);
    set(Float32Backend::GENERIC, Float32Op::ALL, Torch::NONE);
    for (const Float32Backend backend : {Float32Backend::CUDA, Float32Backend::MKLDNN}) {
      set(backend, Float32Op::ALL, Torch::NONE);
      set(backend, Float32Op::MATMUL, Torch::NONE);
    }
    set(Float32Backend::MKLDNN, Float32Op::CONV, Torch::NONE);
    set(Float32Backend::MKLDNN, Float32Op::RNN, Torch::NONE);
  }
};

TEST_F(Float32PrecisionTest, TheNewerSettingDoesNotEndALanesThread) {
  set_cuda_matmul(Torch::TF32);
  ASSERT_THROW(at::globalContext().float32MatmulPrecision(), c10::Error);
  {
    const NumericScope scope{lanes::NumericContext{}};  // used to throw
    EXPECT_NE(cuda_matmul(), Torch::TF32);
    EXPECT_NO_THROW(at::globalContext().float32MatmulPrecision());
  }
  EXPECT_EQ(cuda_matmul(), Torch::TF32);
  ASSERT_THROW(at::globalContext().float32MatmulPrecision(), c10::Error);
}

TEST_F(Float32PrecisionTest, EveryUseIsSetAndPutBack) {
  const lanes::Float32Precisions before = float32_precisions();
  EXPECT_EQ(before, lanes::kTorchFloat32Precisions);
  lanes::NumericContext context;
  context.float32 = {Precision::tf32, Precision::full, Precision::full,
                     Precision::bf16, Precision::tf32, Precision::bf16};
  {
    const NumericScope scope(context);
    EXPECT_EQ(float32_precisions(), context.float32);
    EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::MEDIUM);
    EXPECT_FALSE(at::globalContext().allowTF32CuDNN());
  }
  EXPECT_EQ(float32_precisions(), before);
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGHEST);
  EXPECT_TRUE(at::globalContext().allowTF32CuDNN());
}

TEST_F(Float32PrecisionTest, ASettingThatFollowedAnotherStillDoes) {
  set(Float32Backend::GENERIC, Float32Op::ALL, Torch::TF32);
  set(Float32Backend::MKLDNN, Float32Op::CONV, Torch::TF32);  // its own, of the same value
  ASSERT_EQ(cuda_matmul(), Torch::TF32);
  { const NumericScope scope{lanes::NumericContext{}}; }
  EXPECT_EQ(cuda_matmul(), Torch::TF32);
  set(Float32Backend::GENERIC, Float32Op::ALL, Torch::IEEE);
  EXPECT_EQ(cuda_matmul(), Torch::IEEE);
  EXPECT_EQ(effective(Float32Backend::MKLDNN, Float32Op::RNN), Torch::IEEE);
  EXPECT_EQ(effective(Float32Backend::MKLDNN, Float32Op::CONV), Torch::TF32);
}

TEST_F(Float32PrecisionTest, WhatAnotherThreadSetsMeanwhileStays) {
  for (const lanes::Float32Use use : {lanes::Float32Use::mkldnn_conv,  // the scope changes others
                                      lanes::Float32Use::cuda_matmul}) {
    {
      const NumericScope scope(with_tf32(use));
      std::thread([] {
        set_cuda_matmul(Torch::IEEE);
        set(Float32Backend::CUDA, Float32Op::CONV, Torch::IEEE);
      }).join();
      // A lane's next iteration has its graph's all the same.
      const NumericScope next(with_tf32(use));
      EXPECT_EQ(float32_precisions(), with_tf32(use).float32);
    }
    EXPECT_EQ(effective(Float32Backend::CUDA, Float32Op::CONV), Torch::IEEE);
    EXPECT_EQ(cuda_matmul(), Torch::IEEE);
    EXPECT_EQ(effective(Float32Backend::MKLDNN, Float32Op::CONV), Torch::NONE);
    EXPECT_EQ(effective(Float32Backend::CUDA, Float32Op::RNN), Torch::TF32);
    set(Float32Backend::CUDA, Float32Op::CONV, Torch::TF32);
    set_cuda_matmul(Torch::NONE);
  }
}

TEST_F(Float32PrecisionTest, TheOlderSettingThatAnotherThreadSetsMeanwhileStays) {
  {
    const NumericScope scope(with_tf32(lanes::Float32Use::mkldnn_conv));
    std::thread([] { at::globalContext().setFloat32MatmulPrecision("high"); }).join();
  }
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGH);
  EXPECT_EQ(cuda_matmul(), Torch::TF32);
  EXPECT_EQ(effective(Float32Backend::MKLDNN, Float32Op::CONV), Torch::NONE);
}

}  // namespace
}  // namespace laneway::adaptor
