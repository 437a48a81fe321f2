// Shows that an iteration's numeric state is the graph's and not its caller's, and that what was
// there is put back: thread count, math flags, autocast, gradient and inference mode; also when two
// scopes overlap without nesting, as two lanes do.
#include "adaptor/scope/numeric_context.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <future>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

namespace laneway::adaptor {
namespace {

using Precision = lanes::Float32Precision;

lanes::NumericContext other_context() {
  lanes::NumericContext context;
  context.threads = 3;
  context.mkldnn = false;
  context.deterministic = true;
  context.deterministic_warn_only = true;
  context.float32 = {Precision::tf32, Precision::full, Precision::full,
                     Precision::tf32, Precision::full, Precision::full};
  context.default_dtype = lanes::DType::float64;
  return context;
}

void expect_defaults() {
  EXPECT_TRUE(at::globalContext().userEnabledMkldnn());
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  EXPECT_FALSE(at::globalContext().deterministicAlgorithmsWarnOnly());
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGHEST);
  EXPECT_EQ(at::empty({1}).scalar_type(), at::kFloat);
}

void expect_other() {
  EXPECT_FALSE(at::globalContext().userEnabledMkldnn());
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_TRUE(at::globalContext().deterministicAlgorithmsWarnOnly());
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGH);
  EXPECT_EQ(at::empty({1}).scalar_type(), at::kDouble);
}

TEST(NumericScope, SetsFlagsAndThreadsAndPutsThemBack) {
  at::set_num_threads(2);
  expect_defaults();
  {
    const NumericScope scope(other_context());
    expect_other();
    EXPECT_EQ(at::get_num_threads(), 3);
  }
  expect_defaults();
  EXPECT_EQ(at::get_num_threads(), 2);
}

TEST(NumericScope, KeepsTheFlagsWhileAnotherThreadsScopeIsOpen) {
  std::promise<void> opened;
  std::promise<void> to_close;
  std::optional<NumericScope> first;
  first.emplace(other_context());
  std::thread second([&] {
    const NumericScope scope(other_context());
    opened.set_value();
    to_close.get_future().wait();
  });
  opened.get_future().wait();
  first.reset();  // the first in is the first out
  expect_other();
  to_close.set_value();
  second.join();
  expect_defaults();
}

TEST(NumericScope, LeavesTheCountOfThreadsThatBeginAlone) {
  // at::set_num_threads in a lane used to decide with how many threads the user's next one
  // computes.
  at::set_num_threads(2);
  const auto count_of_a_new_thread = [] {
    return std::async(std::launch::async, [] { return at::get_num_threads(); }).get();
  };
  {
    const NumericScope scope(other_context());
    EXPECT_EQ(at::get_num_threads(), 3);
    EXPECT_EQ(count_of_a_new_thread(), 2);
  }
  std::async(std::launch::async, [] {
    const NumericScope scope(other_context());
    EXPECT_EQ(at::get_num_threads(), 3);
  }).get();
  EXPECT_EQ(count_of_a_new_thread(), 2);
  EXPECT_EQ(at::get_num_threads(), 2);
}

TEST(NumericScope, KeepsTheCallersFlushingOfDenormalsOutAndPutsItBack) {
  if (!at::globalContext().setFlushDenormal(true)) GTEST_SKIP() << "not on this processor";
  const auto flushes = [] {
    const volatile float smallest = std::numeric_limits<float>::min();
    return smallest * 0.5F == 0.0F;
  };
  lanes::NumericContext flushing;
  flushing.flush_denormal = true;
  EXPECT_TRUE(flushes());
  {
    const NumericScope scope{lanes::NumericContext{}};
    EXPECT_FALSE(flushes());
  }
  {
    const NumericScope scope(flushing);
    EXPECT_TRUE(flushes());
  }
  EXPECT_TRUE(flushes());  // used to be off after an iteration on the user's thread
  at::globalContext().setFlushDenormal(false);
  {
    const NumericScope scope(flushing);
    EXPECT_TRUE(flushes());
  }
  EXPECT_FALSE(flushes());
}

TEST(NumericScope, DoesNotLetTheCallersModesIn) {
  const c10::AutoGradMode no_grad(false);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor ones = at::ones({2, 2});
  EXPECT_EQ(at::mm(ones, ones).scalar_type(), at::kBFloat16);
  {
    const NumericScope scope{lanes::NumericContext{}};
    EXPECT_EQ(at::mm(ones, ones).scalar_type(), at::kFloat);
    EXPECT_TRUE(c10::GradMode::is_enabled());
  }
  EXPECT_FALSE(c10::GradMode::is_enabled());
  EXPECT_EQ(at::mm(ones, ones).scalar_type(), at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  {
    const c10::InferenceMode inference;
    {
      const NumericScope scope{lanes::NumericContext{}};
      EXPECT_FALSE(c10::InferenceMode::is_enabled());
      EXPECT_FALSE(at::empty({1}).is_inference());
    }
    EXPECT_TRUE(c10::InferenceMode::is_enabled());
    EXPECT_TRUE(at::empty({1}).is_inference());
  }
}

TEST(NumericScope, RunsBelowAutograd) {
  const at::Tensor weight = at::ones({2, 2}).requires_grad_(true);
  EXPECT_TRUE(at::mm(weight, weight).requires_grad());
  const NumericScope scope{lanes::NumericContext{}};
  EXPECT_FALSE(at::mm(weight, weight).requires_grad());
}

TEST(ContextKey, DiffersInEverythingThatIsNotTheThreads) {
  const lanes::NumericContext plain;
  lanes::NumericContext threads = plain;
  threads.threads = 7;
  EXPECT_EQ(context_key(plain), context_key(threads));
  EXPECT_NE(context_key(plain), 0U);
  lanes::NumericContext flushing = plain;
  flushing.flush_denormal = true;
  EXPECT_EQ(context_key(plain), context_key(flushing));
  std::vector<lanes::NumericContext> others(4 + lanes::kFloat32Uses, plain);
  others[0].mkldnn = false;
  others[1].deterministic = true;
  others[2].deterministic_warn_only = true;
  others[3].default_dtype = lanes::DType::float64;
  for (size_t use = 0; use < lanes::kFloat32Uses; ++use) {
    others[4 + use].float32[use] =
        plain.float32[use] == Precision::full ? Precision::tf32 : Precision::full;
  }
  for (const lanes::NumericContext& other : others) {
    EXPECT_NE(context_key(plain), context_key(other));
  }
}

}  // namespace
}  // namespace laneway::adaptor
