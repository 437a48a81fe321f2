// Shows that space is an iteration's own until it gives it back, that blocks grow to what an
// iteration needs and are used again, and that the limit holds.
#include "adaptor/device/staging.h"

#include <gtest/gtest.h>

#include <cstring>

#include "memory/device/host_device.h"

namespace laneway::adaptor {
namespace {

TEST(Staging, WhatABatchTookIsNobodyElses) {
  memory::HostDevice device;
  Staging staging(device);
  Staging::Batch first;
  Staging::Batch second;
  for (int i = 0; i < 100; ++i) {
    std::byte* const a = staging.take(first, Bytes(1'000));
    std::byte* const b = staging.take(second, Bytes(1'000));
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 64, 0u);
    std::memset(a, 1, 1'000);
    std::memset(b, 2, 1'000);
    EXPECT_EQ(std::to_integer<int>(a[999]), 1);
  }
  staging.give_back(first);
  EXPECT_TRUE(first.empty());
  staging.give_back(second);
}

TEST(Staging, BlocksGrowToAnIterationAndAreUsedAgain) {
  memory::HostDevice device;
  Staging staging(device);
  for (int iteration = 0; iteration < 3; ++iteration) {
    Staging::Batch batch;
    for (int input = 0; input < 5; ++input) {
      ASSERT_NE(staging.take(batch, mib(1) - Bytes(1)), nullptr);
    }
    staging.give_back(batch);
  }
  const Bytes held = staging.held();
  EXPECT_GE(held, mib(5));
  EXPECT_LE(held, mib(16));
  for (int iteration = 0; iteration < 20; ++iteration) {
    Staging::Batch batch;
    for (int input = 0; input < 5; ++input) {
      ASSERT_NE(staging.take(batch, mib(1) - Bytes(1)), nullptr);
    }
    EXPECT_EQ(staging.held(), held);
    staging.give_back(batch);
  }
}

TEST(Staging, TheLimitHoldsAndIdleBlocksMakeRoom) {
  memory::HostDevice device;
  Staging staging(device);
  Staging::Batch batch;
  EXPECT_EQ(staging.take(batch, limits::kMaxLaneStaging + Bytes(1)), nullptr);
  ASSERT_NE(staging.take(batch, Bytes(limits::kMaxLaneStaging.count() / 2)), nullptr);
  Staging::Batch other;
  ASSERT_NE(staging.take(other, Bytes(limits::kMaxLaneStaging.count() / 2)), nullptr);
  EXPECT_EQ(staging.take(other, Bytes(1)), nullptr);
  staging.give_back(batch);
  staging.give_back(other);
  EXPECT_LE(staging.held(), limits::kMaxLaneStaging);
  ASSERT_NE(staging.take(batch, limits::kMaxLaneStaging), nullptr);
  EXPECT_EQ(staging.held(), limits::kMaxLaneStaging);
  staging.give_back(batch);
}

}  // namespace
}  // namespace laneway::adaptor
