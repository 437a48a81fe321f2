// Shows that a copy takes what the link's bandwidth says, by a manual clock that the engine's own
// sleep advances: nothing here waits.
#include "memory/device/copy_engine.h"

#include <gtest/gtest.h>

#include <vector>

namespace laneway::memory {
namespace {

TEST(CopyEngine, TakesBytesOverBandwidth) {
  ManualClock clock;
  CopyEngine engine(clock, [&](Duration time) { clock.advance(time); });
  const std::vector<std::byte> from(1'000'000, std::byte{5});
  std::vector<std::byte> to(from.size());
  const auto size = Bytes(static_cast<int64_t>(from.size()));
  engine.copy(CopyDirection::to_device, to.data(), from.data(), size);
  EXPECT_EQ(to, from);
  EXPECT_EQ(clock.now(), TimePoint(0)) << "unlimited until set";

  engine.set_bandwidth(500'000);
  engine.copy(CopyDirection::to_device, to.data(), from.data(), size);
  EXPECT_EQ(clock.now(), TimePoint(0) + seconds(2));
  engine.copy(CopyDirection::to_host, to.data(), from.data(), Bytes(250'000));
  EXPECT_EQ(clock.now(), TimePoint(0) + milliseconds(2500));
  engine.set_bandwidth(0);
  engine.copy(CopyDirection::to_host, to.data(), from.data(), size);
  EXPECT_EQ(clock.now(), TimePoint(0) + milliseconds(2500));
}

TEST(CopyEngine, SleepsAgainWhenWokenEarly) {
  ManualClock clock;
  int sleeps = 0;
  CopyEngine engine(clock, [&](Duration time) {
    clock.advance(Duration((time.ns() + 1) / 2));
    ++sleeps;
  });
  engine.set_bandwidth(1000);
  std::byte from{1};
  std::byte to{0};
  engine.copy(CopyDirection::to_host, &to, &from, Bytes(1));
  EXPECT_EQ(clock.now(), TimePoint(0) + milliseconds(1));
  EXPECT_GT(sleeps, 1);
}

}  // namespace
}  // namespace laneway::memory
