// Shows that a pool which another host device made is one of this device's own once attached: its
// streams reach into it, both see the same bytes, it outlives its maker, and what is no pool is
// refused.
#include "memory/device/host_device.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

namespace laneway::memory {
namespace {

constexpr Bytes kSize = mib(1);

TEST(HostDeviceAttach, StreamsReachIntoAnAttachedPool) {
  HostDevice other;
  HostDevice device;
  auto made = other.allocate_pool(kSize).value();
  const auto pool = device.attach_pool(::dup(made->descriptor()), kSize).value();
  EXPECT_EQ(pool->size(), kSize);
  made->data()[kSize.count() - 1] = std::byte{7};

  const auto stream = device.create_stream().value();
  ASSERT_TRUE(stream->fill(pool->data(), std::byte{5}, kSize - Bytes(1)));
  std::vector<std::byte> read(static_cast<size_t>(kSize.count()));
  ASSERT_TRUE(stream->copy_to_host(read.data(), pool->data(), kSize));
  ASSERT_TRUE(stream->synchronize());
  EXPECT_EQ(read.front(), std::byte{5});
  EXPECT_EQ(read.back(), std::byte{7}) << "what the maker wrote";
  EXPECT_EQ(made->data()[0], std::byte{5}) << "what this device wrote";

  made.reset();
  ASSERT_TRUE(stream->fill(pool->data(), std::byte{6}, kSize)) << "it outlives its maker";
  ASSERT_TRUE(stream->synchronize());
  EXPECT_EQ(pool->data()[kSize.count() - 1], std::byte{6});
}

TEST(HostDeviceAttach, ADetachedPoolIsNoLongerTheDevices) {
  HostDevice other;
  HostDevice device;
  const auto made = other.allocate_pool(kSize).value();
  auto pool = device.attach_pool(::dup(made->descriptor()), kSize).value();
  std::byte* const place = pool->data();
  pool.reset();
  const auto stream = device.create_stream().value();
  EXPECT_EQ(stream->fill(place, std::byte{1}, kSize).error().code, ErrorCode::invalid_argument);
}

TEST(HostDeviceAttach, WhatIsNoPoolOfThatSizeIsRefusedAndClosed) {
  HostDevice device;
  const auto made = device.allocate_pool(kSize).value();
  for (const bool wrong_size : {true, false}) {
    const int descriptor =
        wrong_size ? ::dup(made->descriptor()) : ::open("/dev/null", O_RDWR | O_CLOEXEC);
    const auto refused = device.attach_pool(descriptor, wrong_size ? kSize + kSize : kSize);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(::fcntl(descriptor, F_GETFD), -1) << "it was taken over";
  }
}

}  // namespace
}  // namespace laneway::memory
