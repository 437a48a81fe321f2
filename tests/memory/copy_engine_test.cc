// Shows that copies take what the link's bandwidth says, in however many pieces, also when every
// sleep ends late; that no byte is there before its time; that a small copy passes a large one; and
// that idle time is lost. By a manual clock that the engine's own sleep advances: nothing waits.
// That short rests are not slept, by the kernel's count of sleeps.
#include "memory/device/copy_engine.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/seed.h"

namespace laneway::memory {
namespace {

constexpr Duration kRounding = microseconds(5);  // a nanosecond a slice
constexpr int64_t kRate = 1'000'000;             // bytes per second: one a microsecond

class CopyEngineTest : public ::testing::Test {
 protected:
  void copy(int64_t bytes, CopyDirection direction = CopyDirection::to_device) {
    std::vector<std::byte> from(static_cast<size_t>(bytes), std::byte{5});
    std::vector<std::byte> to(from.size());
    engine_.copy(direction, to.data(), from.data(), Bytes(bytes));
    EXPECT_EQ(to, from);
  }
  int64_t now_us() const { return clock_.now().ns() / 1000; }

  ManualClock clock_;
  Duration late_;  // what each sleep takes too long
  std::function<void()> asleep_ = [] {};
  CopyEngine engine_{clock_, [this](Duration time) {
                       const auto what = asleep_;  // which may set another one
                       what();
                       clock_.advance(time + late_);
                     }};
};

TEST_F(CopyEngineTest, TakesBytesOverBandwidth) {
  copy(1'000'000);
  EXPECT_EQ(now_us(), 0) << "unlimited until set";
  engine_.set_bandwidth(kRate / 2);
  copy(1'000'000);
  EXPECT_EQ(now_us(), 2'000'000);
  copy(250'000, CopyDirection::to_host);
  EXPECT_EQ(now_us(), 2'500'000);
  copy(0);
  EXPECT_EQ(now_us(), 2'500'000);
  engine_.set_bandwidth(0);
  copy(1'000'000, CopyDirection::to_host);
  EXPECT_EQ(now_us(), 2'500'000);
}

TEST_F(CopyEngineTest, PiecesTakeWhatTheWholeTakes) {
  for (const int64_t pieces : {1, 52, 930}) {
    engine_.set_bandwidth(kRate);
    const int64_t start = now_us();
    for (int64_t piece = 0; piece < pieces; ++piece) {
      copy(300'000 * (piece + 1) / pieces - 300'000 * piece / pieces);
    }
    EXPECT_EQ(now_us() - start, 300'000) << pieces << " pieces";
  }
}

TEST_F(CopyEngineTest, SleepsThatEndLateDoNotAddUp) {
  for (const int64_t pieces : {1, 52, 930}) {
    ManualClock clock;
    CopyEngine engine(clock, [&](Duration time) { clock.advance(time + microseconds(60)); });
    engine.set_bandwidth(kRate);
    std::vector<std::byte> from(300'000);
    std::vector<std::byte> to(from.size());
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t begin = 300'000 * piece / pieces;
      const int64_t end = 300'000 * (piece + 1) / pieces;
      engine.copy(CopyDirection::to_device, to.data() + begin, from.data() + begin,
                  Bytes(end - begin));
    }
    EXPECT_GE(clock.now().ns(), 300'000'000) << pieces << " pieces";
    EXPECT_LE(clock.now().ns(), 300'000'000 + 60'000) << pieces << " pieces";
  }
}

// A busy machine: most threads wake a little late, some by many milliseconds. Each direction is
// copied by turns, in pieces of any size. What is late at the end is what the last wake-up of the
// direction was late, plus the engine's own spin; of all the others nothing is left.
TEST_F(CopyEngineTest, OfAllLateWakeUpsOnlyTheLastOneShows) {
  const uint64_t seed = testing::seed_from_environment(11);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 20; ++trial) {
    ManualClock clock;
    Duration last_late;
    Duration all_late;
    CopyEngine engine(clock, [&](Duration time) {
      last_late = random() % 50 == 0 ? milliseconds(static_cast<int64_t>(1 + random() % 20))
                                     : microseconds(static_cast<int64_t>(random() % 120));
      all_late += last_late;
      clock.advance(time + last_late);
    });
    const int64_t rate = 1'000'000 * static_cast<int64_t>(1 + random() % 4);
    engine.set_bandwidth(rate);
    const CopyDirection direction =
        trial % 2 == 0 ? CopyDirection::to_device : CopyDirection::to_host;
    int64_t bytes = 0;
    std::vector<std::byte> from(20'000, std::byte{5});
    std::vector<std::byte> to(from.size());
    while (bytes < 600'000) {
      const auto piece = static_cast<int64_t>(1 + random() % from.size());
      last_late = Duration();
      engine.copy(direction, to.data(), from.data(), Bytes(piece));
      bytes += piece;
      const TimePoint exact = TimePoint(0) + Duration(bytes * 1'000'000'000 / rate);
      const Duration late = clock.now() - exact;
      ASSERT_GE(late.ns(), -kRounding.ns()) << "a byte was there before its time";
      if (last_late == Duration()) continue;  // it made up for an earlier one, and did not sleep
      ASSERT_LE(late.ns(), last_late.ns() + kRounding.ns()) << "seed " << seed;
    }
    EXPECT_GT(all_late, milliseconds(20)) << "there was something to make up for";
  }
}

TEST_F(CopyEngineTest, TimeInWhichNobodyCopiesIsLost) {
  engine_.set_bandwidth(kRate);
  late_ = microseconds(70);
  copy(100);
  EXPECT_EQ(now_us(), 170);
  clock_.advance(seconds(1));
  late_ = Duration(0);
  copy(100'000);
  EXPECT_EQ(now_us(), 170 + 1'000'000 + 100'000) << "nor is the lateness from before made up";
}

// The gaps between pieces are the caller's time: the link was free, and what it did not carry then
// does not come back, however many gaps there are.
TEST_F(CopyEngineTest, TimeBetweenPiecesIsLostToo) {
  engine_.set_bandwidth(kRate);
  for (int piece = 0; piece < 100; ++piece) {
    copy(1'000);
    clock_.advance(microseconds(300));
  }
  EXPECT_EQ(now_us(), 100 * (1'000 + 300));
}

TEST_F(CopyEngineTest, AThreadThatWasStoppedForLongIsNotMadeUpFor) {
  engine_.set_bandwidth(kRate);
  bool stopped = false;
  asleep_ = [&] {
    if (!std::exchange(stopped, true)) clock_.advance(seconds(10));
  };
  copy(1'000'000);
  EXPECT_GE(now_us(), 10'000'000 + 1'000'000 - 250 - 100'000);
}

TEST_F(CopyEngineTest, NoByteIsThereBeforeItsTime) {
  engine_.set_bandwidth(kRate);
  const std::vector<std::byte> from(10'000, std::byte{5});
  std::vector<std::byte> to(from.size());
  asleep_ = [&] {
    for (auto at = static_cast<size_t>(now_us()); at < to.size(); ++at) {
      ASSERT_EQ(to[at], std::byte{0}) << "byte " << at << " at " << now_us() << " us";
    }
  };
  engine_.copy(CopyDirection::to_device, to.data(), from.data(), Bytes(10'000));
  EXPECT_EQ(to, from);
}

TEST_F(CopyEngineTest, ASmallCopyWaitsForOneSliceOfALargeOne) {
  engine_.set_bandwidth(kRate);
  std::atomic<int64_t> small_ended{0};
  int sleeps = 0;
  std::vector<std::byte> bytes(100'000);
  std::vector<std::byte> large(bytes.size());
  asleep_ = [&] {
    if (++sleeps != 2) return;
    // In the middle of a slice of the large one.
    std::thread([&] {
      std::byte to{};
      const std::byte from{1};
      asleep_ = [] {};
      engine_.copy(CopyDirection::to_device, &to, &from, Bytes(1));
      small_ended = now_us();
    }).join();
  };
  engine_.copy(CopyDirection::to_device, large.data(), bytes.data(), Bytes(100'000));
  EXPECT_EQ(small_ended, 2 * 250 + 1);
  EXPECT_EQ(now_us(), 100'001) << "its time is the large one's too";
}

TEST_F(CopyEngineTest, TheDirectionsDoNotWaitForEachOther) {
  engine_.set_bandwidth(kRate);
  copy(1'000);
  asleep_ = [&] {
    asleep_ = [] {};
    std::thread([&] { copy(100, CopyDirection::to_host); }).join();
    EXPECT_EQ(now_us(), 1'100);
  };
  copy(1'000);
  EXPECT_EQ(now_us(), 2'000);
}

TEST_F(CopyEngineTest, AnotherRateHoldsFromTheNextSlice) {
  engine_.set_bandwidth(kRate);
  int sleeps = 0;
  asleep_ = [&] {
    if (++sleeps == 2) engine_.set_bandwidth(2 * kRate);
  };
  copy(10'000);
  EXPECT_EQ(now_us(), 2 * 250 + (10'000 - 2 * 250) / 2);
}

TEST_F(CopyEngineTest, SleepsAgainWhenWokenEarly) {
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

// A real clock, and what the kernel counts: a thread that sleeps gives its core up each time.
TEST(CopyEngine, ShortRestsAreNotSlept) {
  CopyEngine engine;
  engine.set_bandwidth(1'000'000'000);
  const std::vector<std::byte> from(15'000, std::byte{5});  // 15 us
  std::vector<std::byte> to(from.size());
  const auto times_asleep = [] {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  };
  const auto before = times_asleep();
  for (int i = 0; i < 100; ++i) {
    engine.copy(CopyDirection::to_host, to.data(), from.data(), Bytes(15'000));
  }
  EXPECT_LT(times_asleep() - before, 5) << "of 100 copies";
  EXPECT_EQ(to, from);
}

}  // namespace
}  // namespace laneway::memory
