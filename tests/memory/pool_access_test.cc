// Shows that both ways into a pool carry the same bytes, whatever their count and place (random
// writes, fills and reads against a plain vector), refuse what is not inside, and that the way over
// a stream keeps its chunks apart and has nothing under way when it returns, on a device whose work
// is done as late as possible too.
#include "memory/pool_access.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "memory/device/host_device.h"
#include "memory/device/limits.h"
#include "memory/host_pool_access.h"
#include "memory/stream_pool_access.h"
#include "tests/support/seed.h"
#include "tests/support/synthetic_device.h"

namespace laneway::memory {
namespace {

constexpr int64_t kPool = 3 * limits::kCopyChunk.count() + 12345;

enum class Way { host, stream_of_host, stream_of_synthetic };

class PoolAccessTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (GetParam() == Way::stream_of_synthetic) {
      device_ = std::make_unique<SyntheticDevice>();
    } else {
      device_ = std::make_unique<HostDevice>();
    }
    pool_ = device_->allocate_pool(Bytes(kPool)).value();
    if (GetParam() == Way::host) {
      auto access = std::make_unique<HostPoolAccess>();
      access->confine_to(pool_->data(), pool_->size());
      access_ = std::move(access);
    } else {
      access_ = StreamPoolAccess::create(*device_).value();
    }
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<MemoryBlock> pool_;
  std::unique_ptr<PoolAccess> access_;
};

TEST_P(PoolAccessTest, RandomWritesFillsAndReadsAreThoseOfAPlainVector) {
  Random random(testing::seed_from_environment(71));
  std::vector<std::byte> model(kPool);
  std::vector<std::byte> bytes(kPool);
  std::vector<std::byte> source(kPool + 256);
  for (size_t i = 0; i < source.size(); ++i) source[i] = std::byte(uint8_t(i * 7 + i / 251));
  constexpr int64_t kChunk = limits::kCopyChunk.count();
  const std::vector<int64_t> sizes{0,          1,          4097,           kChunk - 1,     kChunk,
                                   kChunk + 1, 2 * kChunk, 2 * kChunk + 5, 3 * kChunk + 7, kPool};
  for (int step = 0; step < 8; ++step) {
    const int64_t size = sizes[random.below(sizes.size())];
    const auto at = static_cast<int64_t>(random.below(static_cast<uint64_t>(kPool - size + 1)));
    const auto value = static_cast<uint8_t>(random.below(256));
    const auto count = static_cast<size_t>(size);
    if (random.chance(0.6)) {
      std::memcpy(bytes.data(), source.data() + value, count);
      std::memcpy(model.data() + at, bytes.data(), count);
      ASSERT_TRUE(access_->write(pool_->data() + at, bytes.data(), Bytes(size)).ok());
      std::memset(bytes.data(), 0xEE, count);  // it was read before write returned
    } else {
      std::memset(model.data() + at, value, count);
      ASSERT_TRUE(access_->fill(pool_->data() + at, std::byte(value), Bytes(size)).ok());
    }
    ASSERT_TRUE(access_->read(bytes.data(), pool_->data() + at, Bytes(size)).ok());
    ASSERT_EQ(std::memcmp(bytes.data(), model.data() + at, count), 0) << step;
  }
  ASSERT_TRUE(access_->read(bytes.data(), pool_->data(), Bytes(kPool)).ok());
  EXPECT_EQ(std::memcmp(bytes.data(), model.data(), model.size()), 0);
}

TEST_P(PoolAccessTest, CopiesWithinThePoolMoveWhatLiesThere) {
  constexpr int64_t kChunk = limits::kCopyChunk.count();
  std::vector<std::byte> model(kPool);
  for (size_t i = 0; i < model.size(); ++i) model[i] = std::byte(uint8_t(i * 7 + i / 251));
  ASSERT_TRUE(access_->write(pool_->data(), model.data(), Bytes(kPool)).ok());
  const int64_t half = kPool / 2;
  for (const int64_t size : {int64_t{0}, int64_t{1}, kChunk - 3, half - 1}) {
    for (const auto& [to, from] : {std::pair(int64_t{1}, half), std::pair(half, int64_t{0})}) {
      std::memcpy(model.data() + to, model.data() + from, static_cast<size_t>(size));
      const Status copied =
          access_->copy_within(pool_->data() + to, pool_->data() + from, Bytes(size));
      ASSERT_TRUE(copied.ok()) << copied.error().message;
    }
  }
  std::vector<std::byte> bytes(kPool);
  ASSERT_TRUE(access_->read(bytes.data(), pool_->data(), Bytes(kPool)).ok());
  EXPECT_EQ(std::memcmp(bytes.data(), model.data(), model.size()), 0);
}

TEST_P(PoolAccessTest, WhatIsNotInsideThePoolIsRefused) {
  std::vector<std::byte> bytes(kPool + 1);
  const auto refused = [](const Status& status) {
    return !status.ok() && status.error().code == ErrorCode::invalid_argument;
  };
  EXPECT_TRUE(refused(access_->write(pool_->data(), bytes.data(), Bytes(kPool + 1))));
  EXPECT_TRUE(refused(access_->write(pool_->data() - 1, bytes.data(), Bytes(1))));
  EXPECT_TRUE(refused(access_->read(bytes.data(), pool_->data() + kPool, Bytes(1))));
  EXPECT_TRUE(refused(access_->read(bytes.data(), bytes.data(), Bytes(1))));
  EXPECT_TRUE(refused(access_->fill(pool_->data() + 1, std::byte{1}, Bytes(kPool))));
  EXPECT_TRUE(refused(access_->fill(pool_->data(), std::byte{1}, Bytes(-1))));
  EXPECT_TRUE(refused(access_->copy_within(pool_->data() + kPool, pool_->data(), Bytes(1))));
  EXPECT_TRUE(refused(access_->copy_within(pool_->data(), bytes.data(), Bytes(1))));
  EXPECT_TRUE(refused(access_->copy_within(pool_->data() + 1, pool_->data(), Bytes(-1))));
  EXPECT_TRUE(refused(access_->write(pool_->data(), bytes.data(), Bytes(-1))));
  EXPECT_TRUE(refused(access_->read(bytes.data(), pool_->data(), Bytes(-1))));
  EXPECT_TRUE(access_->write(pool_->data() + kPool, bytes.data(), Bytes(0)).ok());
  EXPECT_TRUE(access_->fill(pool_->data(), std::byte{1}, Bytes(kPool)).ok());
}

// Two pinned ranges side by side and bytes around them that are not pinned, with copies that begin
// and end everywhere; then the same when nothing is pinned any more.
TEST_P(PoolAccessTest, MemoryThatIsPinnedChangesNoByte) {
  constexpr int64_t kRange = 100'000;
  std::vector<std::byte> host(4 * kRange);
  std::vector<std::unique_ptr<MemoryBlock>> pinned;
  if (access_->wants_pinned()) {
    for (const int64_t at : {kRange, 2 * kRange}) {
      pinned.push_back(access_->pin(host.data() + at, Bytes(kRange)).value());
      EXPECT_EQ(pinned.back()->data(), host.data() + at);
      EXPECT_EQ(pinned.back()->size(), Bytes(kRange));
    }
  }
  uint8_t round = 0;
  const auto try_all = [&] {
    for (const int64_t from : {int64_t{0}, kRange - 1, kRange, kRange + 1, 2 * kRange - 7}) {
      for (const int64_t size : {int64_t{1}, int64_t{9}, kRange, 2 * kRange, 4 * kRange - from}) {
        if (from + size > 4 * kRange) continue;
        ++round;
        for (size_t i = 0; i < host.size(); ++i) host[i] = std::byte(uint8_t(i * 7 + round));
        const std::vector<std::byte> sent(host.begin() + from, host.begin() + from + size);
        ASSERT_TRUE(access_->write(pool_->data() + 11, host.data() + from, Bytes(size)).ok());
        std::fill(host.begin(), host.end(), std::byte{0});
        ASSERT_TRUE(access_->read(host.data() + from, pool_->data() + 11, Bytes(size)).ok());
        EXPECT_TRUE(std::equal(sent.begin(), sent.end(), host.begin() + from))
            << from << " " << size;
        EXPECT_EQ(std::count(host.begin(), host.begin() + from, std::byte{0}), from);
      }
    }
  };
  try_all();
  pinned.clear();
  try_all();
}

// What is started from pinned memory is there for whoever waits for its event, and the copies are
// in their order: the last event stands for all.
TEST_P(PoolAccessTest, StartedCopiesAreThereBehindTheirEvents) {
  constexpr int64_t kPiece = 50'000;
  std::vector<std::byte> host(4 * kPiece);
  for (size_t i = 0; i < host.size(); ++i) host[i] = std::byte(uint8_t(i * 7 + i / 251));
  std::vector<std::unique_ptr<MemoryBlock>> pinned;
  if (access_->wants_pinned()) {
    for (const int64_t at : {int64_t{0}, 3 * kPiece / 2}) {
      pinned.push_back(access_->pin(host.data() + at, Bytes(3 * kPiece / 2)).value());
    }
  }
  std::vector<std::shared_ptr<Event>> events;
  for (int64_t at = 0; at < 4 * kPiece; at += kPiece) {
    auto there = access_->start_write(pool_->data() + at, host.data() + at, Bytes(kPiece));
    ASSERT_TRUE(there.ok()) << there.error().message;
    // The last one is not pinned as a whole.
    EXPECT_EQ(there.value() != nullptr, access_->wants_pinned() && at < 3 * kPiece);
    if (there.value() == nullptr) continue;
    events.push_back(std::move(there).value());
    if (GetParam() == Way::stream_of_synthetic) {
      EXPECT_EQ(events.back()->query(), EventState::pending) << "nobody waited for it";
    }
  }
  if (!events.empty()) {
    ASSERT_TRUE(events.back()->synchronize().ok());
  }
  std::vector<std::byte> back(host.size());
  ASSERT_TRUE(access_->read(back.data(), pool_->data(), Bytes(4 * kPiece)).ok());
  EXPECT_EQ(back, host);
  const auto outside = access_->start_write(pool_->data() + kPool, host.data(), Bytes(1));
  EXPECT_EQ(outside.error().code, ErrorCode::invalid_argument);
}

// Threads that use parts of their own do not disturb each other.
TEST_P(PoolAccessTest, ThreadsShareIt) {
  constexpr int64_t kPart = 64 << 10;
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::byte* const part = pool_->data() + t * kPart;
      std::vector<std::byte> bytes(kPart);
      for (int round = 0; round < 20; ++round) {
        const std::vector<std::byte> want(kPart, std::byte(uint8_t(16 * t + round)));
        const bool ok = access_->write(part, want.data(), Bytes(kPart)).ok() &&
                        access_->read(bytes.data(), part, Bytes(kPart)).ok() && bytes == want;
        wrong[size_t(t)] += ok ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

std::string name_of(const ::testing::TestParamInfo<Way>& row) {
  switch (row.param) {
    case Way::host: return "host";
    case Way::stream_of_host: return "stream_of_host";
    case Way::stream_of_synthetic: return "stream_of_synthetic";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Ways, PoolAccessTest,
                         ::testing::Values(Way::host, Way::stream_of_host,
                                           Way::stream_of_synthetic),
                         name_of);

TEST_P(PoolAccessTest, MemoryThatIsGivenBackIsTheMachinesAndCanBeUsedAgain) {
  const std::vector<std::byte> full(kPool, std::byte{7});
  ASSERT_TRUE(access_->write(pool_->data(), full.data(), Bytes(kPool)).ok());
  constexpr int64_t kFrom = 100'000;
  const bool given = access_->give_back(pool_->data() + kFrom, Bytes(kPool - kFrom));
  EXPECT_EQ(given, GetParam() == Way::host);
  struct stat memory {};
  ASSERT_EQ(::fstat(pool_->descriptor(), &memory), 0);
  const int64_t present = memory.st_blocks * 512;
  std::vector<std::byte> read(kPool);
  if (given) {
    EXPECT_LE(present, kFrom + 2 * 4096) << "and the pages in which it begins and ends";
    ASSERT_TRUE(access_->write(pool_->data() + kFrom, full.data(), Bytes(kPool - kFrom)).ok());
  } else {
    EXPECT_GE(present, kPool);
  }
  ASSERT_TRUE(access_->read(read.data(), pool_->data(), Bytes(kPool)).ok());
  EXPECT_EQ(read, full);
  EXPECT_FALSE(access_->give_back(pool_->data() + kPool - 64, Bytes(4096))) << "it is not inside";
}

TEST(HostPoolAccess, CopiesTakeBytesOverBandwidthAndFillsNothing) {
  ManualClock clock;
  HostPoolAccess access(
      std::make_shared<CopyEngine>(clock, [&](Duration time) { clock.advance(time); }));
  std::vector<std::byte> pool(1'000'000);
  std::vector<std::byte> bytes(pool.size(), std::byte{3});
  const Bytes size(static_cast<int64_t>(pool.size()));
  ASSERT_TRUE(access.write(pool.data(), bytes.data(), size).ok());
  EXPECT_EQ(clock.now(), TimePoint(0)) << "unlimited until set";
  access.set_bandwidth(500'000);
  ASSERT_TRUE(access.write(pool.data(), bytes.data(), size).ok());
  EXPECT_EQ(clock.now(), TimePoint(0) + seconds(2));
  ASSERT_TRUE(access.read(bytes.data(), pool.data(), size).ok());
  EXPECT_EQ(clock.now(), TimePoint(0) + seconds(4));
  ASSERT_TRUE(access.fill(pool.data(), std::byte{1}, size).ok());
  EXPECT_EQ(clock.now(), TimePoint(0) + seconds(4));
}

// A device's streams and the access to its pool are one link, whichever of them was given the rate.
TEST(HostPoolAccess, SharesItsDevicesLink) {
  ManualClock clock;
  HostDevice device(
      std::make_shared<CopyEngine>(clock, [&](Duration time) { clock.advance(time); }));
  HostPoolAccess access(device.link());
  access.set_bandwidth(1'000'000);
  const auto pool = device.allocate_pool(Bytes(1 << 16)).value();
  const auto stream = device.create_stream().value();
  std::vector<std::byte> bytes(30'000, std::byte{3});
  ASSERT_TRUE(stream->copy_to_device(pool->data(), bytes.data(), Bytes(30'000)).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(clock.now(), TimePoint(0) + milliseconds(30));
  ASSERT_TRUE(access.write(pool->data() + 30'000, bytes.data(), Bytes(30'000)).ok());
  EXPECT_EQ(clock.now(), TimePoint(0) + milliseconds(60));
}

}  // namespace
}  // namespace laneway::memory
