// Shows when a waiter spins before it sleeps, on a clock that moves only when it is read: within
// the longest spin, while it pays off, not where cores are short, and ever more rarely where it
// never pays off. Then the same in a RingClient: an answer during the spin costs no doorbell, and
// one that comes later is rung for.
#include "service/transport/adaptive_spin.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <bit>
#include <functional>
#include <memory>
#include <thread>

#include "base/check.h"
#include "service/transport/ring_client.h"
#include "service/transport/ring_server.h"

namespace laneway::service {
namespace {

uint64_t two_cores() { return 0b11; }
uint64_t one_core() { return 0b01; }

// Every look at it takes a microsecond, and may do something.
class LookedAtClock final : public Clock {
 public:
  TimePoint now() const override {
    now_ = now_ + step;
    if (at_look) at_look();
    return now_;
  }

  Duration step = microseconds(1);
  std::function<void()> at_look;

 private:
  mutable TimePoint now_ = TimePoint(1);
};

constexpr auto kNothing = [] { return false; };

class AdaptiveSpinTest : public ::testing::Test {
 protected:
  // Waits that end during the first look.
  void pay_off(int waits) {
    for (int i = 0; i < waits; ++i) {
      if (!spin_.spin({}, TimePoint::never(), [] { return true; })) slept_for(Duration());
    }
  }
  void slept_for(Duration time) {
    const Duration step = clock_.step;
    clock_.step = time;
    spin_.slept();
    clock_.step = step;
  }
  // Whether a wait for which nothing comes spins.
  bool spins(uint32_t others = 1) {
    bool looked = false;
    EXPECT_FALSE(spin_.spin({.threads = others, .cores = 0}, TimePoint::never(), [&looked] {
      looked = true;
      return false;
    }));
    return looked;
  }

  LookedAtClock clock_;
  AdaptiveSpin spin_{clock_, two_cores};
};

TEST_F(AdaptiveSpinTest, ASpinEndsWithWhatItWaitsForOrAfterTheLongestTime) {
  int looks = 0;
  EXPECT_TRUE(spin_.spin({}, TimePoint::never(), [&looks] { return ++looks == 7; }));
  EXPECT_EQ(looks, 7);
  const TimePoint began = clock_.now();
  EXPECT_TRUE(spins());
  EXPECT_LE(clock_.now() - began, AdaptiveSpin::kLongestSpin + microseconds(5));
  pay_off(100);
  const TimePoint until = clock_.now() + microseconds(9);
  EXPECT_FALSE(spin_.spin({}, until, kNothing));
  EXPECT_LE(clock_.now() - until, microseconds(3));
}

TEST_F(AdaptiveSpinTest, MissesMakeSpinsRareAndPayingOffBringsThemBack) {
  int spun = 0;
  for (int i = 0; i < 1'000; ++i) spun += spins() ? 1 : 0;
  EXPECT_EQ(spun, 1) << "what comes late earns nothing";
  spun = 0;
  for (int i = 0; i < 6'400; ++i) {
    if (spins()) {
      ++spun;
    } else {
      slept_for(microseconds(80));  // longer than a spin, yet promising
    }
  }
  EXPECT_GE(spun, 1);
  EXPECT_LE(spun, 6'400 / AdaptiveSpin::kMostCost + 8);
  pay_off(2 * AdaptiveSpin::kMostCost);
  EXPECT_TRUE(spins());
  EXPECT_TRUE(spins()) << "one that missed is forgiven where so many paid off";
}

TEST_F(AdaptiveSpinTest, ALongSleepEarnsNothing) {
  while (spins()) {
  }
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_FALSE(spins());
    slept_for(AdaptiveSpin::kPromisingSleep + microseconds(1));
  }
}

TEST_F(AdaptiveSpinTest, WhereCoresAreShortNobodySpins) {
  pay_off(100);
  EXPECT_FALSE(spins(/*others=*/2)) << "those that it waits for need both";
  EXPECT_TRUE(spins());
  AdaptiveSpin alone(clock_, one_core);
  bool looked = false;
  EXPECT_FALSE(alone.spin({}, TimePoint::never(), [&looked] { return looked = true; }));
  EXPECT_FALSE(looked);
  EXPECT_FALSE(alone.spin({.threads = 1, .cores = 0b01}, TimePoint::never(), kNothing))
      << "both on one core";
  EXPECT_TRUE(alone.spin({.threads = 1, .cores = 0b10}, TimePoint::never(), [] { return true; }))
      << "each on its own core";
}

TEST_F(AdaptiveSpinTest, WhoeverSpinsTakesACoreFromTheOthersOfTheProcess) {
  pay_off(100);
  AdaptiveSpin second(clock_, two_cores);
  bool second_looked = false;
  EXPECT_TRUE(spin_.spin({}, TimePoint::never(), [&] {
    second.spin({}, TimePoint::never(), [&] { return second_looked = true; });
    return true;
  }));
  EXPECT_FALSE(second_looked);
  EXPECT_TRUE(second.spin({}, TimePoint::never(), [] { return true; }));
}

TEST_F(AdaptiveSpinTest, AThreadThatWasTakenOffItsCoreStopsSpinning) {
  pay_off(100);
  EXPECT_TRUE(spin_.spin({}, TimePoint::never(), [this] {
    clock_.step = AdaptiveSpin::kOffCore;  // until the next look at the clock
    return true;
  }));
  clock_.step = microseconds(1);
  for (int i = 0; i < AdaptiveSpin::kMostCost; ++i) {
    EXPECT_FALSE(spins());
    slept_for(Duration());
  }
  slept_for(Duration());
  EXPECT_TRUE(spins());
}

class SpinningRingTest : public ::testing::Test {
 protected:
  SpinningRingTest() {
    memory_.emplace(memory::SharedMemory::create("ring-test", Bytes(kRingBytes)).value());
    ring_ = reinterpret_cast<RingMemory*>(memory_->data());
    format_ring(*ring_);
    int ends[2] = {-1, -1};
    LW_CHECK(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "a pipe for a test");
    doorbell_ = Descriptor(::dup(ends[0]));
    Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    server_ = RingServer::attach(Descriptor(::dup(memory_->descriptor())), wake.duplicate().value(),
                                 Descriptor(ends[1]))
                  .value();
    client_ = RingClient::attach(Descriptor(::dup(memory_->descriptor())), std::move(wake),
                                 Descriptor(ends[0]), clock_)
                  .value();
  }
  void SetUp() override {
    if (std::popcount(usable_cores()) < 2) GTEST_SKIP() << "nobody spins where there is one core";
  }
  void serve() {
    const auto request = server_->take();
    ASSERT_TRUE(request.has_value());
    server_->answer(request->sequence, Status(), Duration());
    server_->publish(request->sequence);
  }
  bool doorbell_rang() const {
    pollfd doorbell{.fd = doorbell_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&doorbell, 1, 0) > 0;
  }

  LookedAtClock clock_;
  std::optional<memory::SharedMemory> memory_;
  RingMemory* ring_ = nullptr;
  Descriptor doorbell_;
  std::unique_ptr<RingServer> server_;
  std::unique_ptr<RingClient> client_;
};

TEST_F(SpinningRingTest, AnAnswerDuringTheSpinCostsNoDoorbell) {
  for (int i = 0; i < 100; ++i) {
    const auto entry = client_->submit({}, nullptr).value();
    int looks = 0;
    clock_.at_look = [this, &looks] {
      if (++looks == 10) serve();
    };
    EXPECT_TRUE(client_->wait(entry, Duration(-1))->ok());
    clock_.at_look = nullptr;
    EXPECT_GE(looks, 10);
    EXPECT_FALSE(doorbell_rang());
  }
}

TEST_F(SpinningRingTest, AClientThatFindsNothingAsksToBeWoken) {
  const auto entry = client_->submit({}, nullptr).value();
  std::jthread worker([this] {
    while (ring_->header.client_waits.load() == 0) std::this_thread::yield();
    serve();
  });
  EXPECT_TRUE(client_->wait(entry, Duration(-1))->ok());
}

TEST_F(SpinningRingTest, NoClientSpinsBesideAWorkerThatUsesEveryCore) {
  server_->publish_threads(64);
  const auto entry = client_->submit({}, nullptr).value();
  std::jthread worker([this] {
    while (ring_->header.client_waits.load() == 0) std::this_thread::yield();
    serve();
  });
  int looks = 0;
  clock_.at_look = [&looks] { ++looks; };
  EXPECT_TRUE(client_->wait(entry, Duration(-1))->ok());
  EXPECT_LT(looks, 10) << "a spin of 50 us looks 50 times";
}

TEST_F(SpinningRingTest, ARingThatIsAbandonedDuringTheSpinIsNotSleptFor) {
  const auto entry = client_->submit({}, nullptr).value();
  int looks = 0;
  clock_.at_look = [this, &looks] {
    if (++looks == 5) client_->abandon(Error{ErrorCode::unavailable, "closed here"});
  };
  EXPECT_EQ(client_->wait(entry, Duration(-1))->error().message, "closed here");
  EXPECT_EQ(ring_->header.client_waits.load(), 0u);
}

TEST_F(SpinningRingTest, ARingThatIsClosedDuringTheSpinAnswersAtOnce) {
  const auto entry = client_->submit({}, nullptr).value();
  int looks = 0;
  clock_.at_look = [this, &looks] {
    if (++looks == 5) server_->close(Error{ErrorCode::failed, "killed"});
  };
  EXPECT_EQ(client_->wait(entry, Duration(-1))->error().message, "killed");
  EXPECT_LT(looks, 10);
}

}  // namespace
}  // namespace laneway::service
