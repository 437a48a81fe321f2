// Images outside of the pool come back as they were, from the store and from the file; what the
// file gives back changed is noticed, what is not wanted any more stops, and no place is believed.
#include "pipeline/outside_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "memory/host_pool_access.h"
#include "memory/stream_pool_access.h"
#include "tests/support/synthetic_device.h"

namespace laneway::pipeline {
namespace {

using lanes::Tier;

constexpr Bytes kSize = mib(9);

class OutsideImagesTest : public testing::Test {
 protected:
  OutsideImagesTest() : image_(static_cast<size_t>(kSize.count())) {
    std::iota(image_.begin(), image_.end(), uint8_t{0});
    auto store = memory::SharedMemory::create("store", mib(32));
    auto spill = memory::SpillFile::create(testing::TempDir(), mib(32));
    file_ = ::dup(spill.value().descriptor());
    outside_ = OutsideImages(std::move(store).value(), std::move(spill).value());
  }
  void TearDown() override { ::close(file_); }
  std::byte* image() { return reinterpret_cast<std::byte*>(image_.data()); }
  Result<uint64_t> save(const lanes::OutsidePlace& to) {
    return outside_.save(pool_, image(), kSize, to, always_);
  }
  Status load(const lanes::OutsidePlace& from, uint64_t sum, std::vector<uint8_t>& into) {
    into.assign(image_.size(), 0);
    return outside_.load(pool_, reinterpret_cast<std::byte*>(into.data()), kSize, from, sum,
                         always_, OutsideImages::Prefix());
  }

  std::vector<uint8_t> image_;
  memory::HostPoolAccess pool_;
  OutsideImages outside_;
  int file_ = -1;
  const OutsideImages::GoesOn always_ = [](Bytes) { return true; };
};

TEST_F(OutsideImagesTest, ComeBackAsTheyWere) {
  for (const Tier tier : {Tier::store, Tier::spill}) {
    const lanes::OutsidePlace place{tier, mib(8)};
    const auto sum = save(place);
    ASSERT_TRUE(sum.ok()) << sum.error().message;
    EXPECT_EQ(outside_.in_memory(place) != nullptr, tier == Tier::store);
    std::vector<uint8_t> back;
    ASSERT_TRUE(load(place, sum.value(), back).ok());
    EXPECT_EQ(back, image_);
  }
}

TEST_F(OutsideImagesTest, WhatTheFileChangedIsNoticed) {
  const lanes::OutsidePlace place{Tier::spill, Bytes(0)};
  const auto sum = save(place);
  ASSERT_TRUE(sum.ok()) << sum.error().message;
  ASSERT_EQ(::pwrite(file_, "x", 1, mib(5).count()), 1);
  std::vector<uint8_t> back;
  const Status loaded = load(place, sum.value(), back);
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.error().message, testing::HasSubstr("other bytes than were written"));
}

// Counts what the link carries.
class CountingAccess final : public memory::PoolAccess {
 public:
  Status write(void* to_pool, const void* from, Bytes bytes) override {
    carried += bytes;
    return host_.write(to_pool, from, bytes);
  }
  Status read(void* to, const void* from_pool, Bytes bytes) override {
    carried += bytes;
    return host_.read(to, from_pool, bytes);
  }
  Status copy_within(void* to_pool, const void* from_pool, Bytes bytes) override {
    moved += bytes;
    return host_.copy_within(to_pool, from_pool, bytes);
  }
  Status fill(void* to_pool, std::byte value, Bytes bytes) override {
    return host_.fill(to_pool, value, bytes);
  }

  Bytes carried;
  Bytes moved;

 private:
  memory::HostPoolAccess host_;
};

// From both tiers, with the prefix at its place and elsewhere in the pool, of sizes beside the
// copies' own pieces. The figure that is told never runs ahead of the bytes.
TEST_F(OutsideImagesTest, TheLinkCarriesWhatIsNotInThePrefixToTheByte) {
  for (const Tier tier : {Tier::store, Tier::spill}) {
    const lanes::OutsidePlace place{tier, mib(8)};
    const auto sum = save(place);
    ASSERT_TRUE(sum.ok()) << sum.error().message;
    for (const Bytes prefix :
         {Bytes(64), mib(1), mib(3) + Bytes(4097), kSize - Bytes(64), kSize - Bytes(1)}) {
      for (const bool moves : {false, true}) {
        CountingAccess pool;
        std::vector<uint8_t> stayed(image_.begin(), image_.begin() + prefix.count());
        std::vector<uint8_t> back(image_.size(), 0xFF);
        auto* const target = reinterpret_cast<std::byte*>(back.data());
        if (!moves) std::copy(stayed.begin(), stayed.end(), back.begin());
        const OutsideImages::Prefix kept{
            moves ? reinterpret_cast<const std::byte*>(stayed.data()) : target, prefix};
        const auto is_there = [&](Bytes told) {
          return std::equal(back.begin(), back.begin() + told.count(), image_.begin());
        };
        const Status loaded =
            outside_.load(pool, target, kSize, place, sum.value(), is_there, kept);
        ASSERT_TRUE(loaded.ok()) << loaded.error().message;
        EXPECT_EQ(back, image_);
        EXPECT_EQ(pool.carried, kSize - prefix);
        EXPECT_EQ(pool.moved, moves ? prefix : Bytes());
      }
    }
  }
}

TEST_F(OutsideImagesTest, APrefixWithOtherBytesThanTheFileHadIsNoticed) {
  const lanes::OutsidePlace place{Tier::spill, Bytes(0)};
  const auto sum = save(place);
  ASSERT_TRUE(sum.ok()) << sum.error().message;
  std::vector<uint8_t> back = image_;
  back[5] ^= 1;
  auto* const target = reinterpret_cast<std::byte*>(back.data());
  const Status loaded =
      outside_.load(pool_, target, kSize, place, sum.value(), always_, {target, mib(2)});
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.error().message, testing::HasSubstr("other bytes than were written"));
}

TEST_F(OutsideImagesTest, StopWhenTheyAreNotWanted) {
  Bytes seen;
  const OutsideImages::GoesOn once = [&seen](Bytes moved) {
    seen = moved;
    return moved == Bytes();
  };
  const lanes::OutsidePlace place{Tier::store, Bytes(0)};
  const auto saved = outside_.save(pool_, image(), kSize, place, once);
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().code, ErrorCode::cancelled);
  EXPECT_EQ(seen, mib(1));
}

TEST_F(OutsideImagesTest, NoPlaceIsBelieved) {
  for (const lanes::OutsidePlace& place :
       {lanes::OutsidePlace{Tier::store, mib(24)}, lanes::OutsidePlace{Tier::spill, Bytes(-64)},
        lanes::OutsidePlace{Tier::none, Bytes(0)}}) {
    EXPECT_EQ(save(place).error().code, ErrorCode::internal);
  }
  EXPECT_FALSE(OutsideImages().exist());
}

// By a device that does nothing before somebody waits for it: what was told of is there behind its
// event, no more is under way than the limit says, and nothing when the call is over.
TEST_F(OutsideImagesTest, ADeviceTakesTheStoresBytesByItself) {
  memory::SyntheticDevice device;
  const auto pool = device.allocate_pool(kSize * 10).value();
  const auto access = memory::StreamPoolAccess::create(device).value();
  const lanes::OutsidePlace place{Tier::store, mib(8) + kib(4)};
  ASSERT_TRUE(access->write(pool->data(), image(), kSize).ok());
  const auto sum = outside_.save(*access, pool->data(), kSize, place, always_);
  ASSERT_TRUE(sum.ok()) << sum.error().message;
  std::byte* const target = pool->data() + kSize.count();
  std::vector<std::shared_ptr<memory::Event>> events;
  Bytes told;
  const Status loaded =
      outside_.load(*access, target, kSize, place, sum.value(), always_, OutsideImages::Prefix(),
                    [&](Bytes bytes, std::shared_ptr<memory::Event> there) {
                      ASSERT_NE(there, nullptr) << "the store was not pinned";
                      EXPECT_EQ(there->query(), memory::EventState::pending);
                      EXPECT_GT(bytes, told);
                      told = bytes;
                      events.push_back(std::move(there));
                    });
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(told, kSize);
  EXPECT_EQ(events.size(), 3U);
  for (const auto& there : events) EXPECT_EQ(there->query(), memory::EventState::done);
  std::vector<uint8_t> back(image_.size());
  ASSERT_TRUE(access->read(back.data(), target, kSize).ok());
  EXPECT_EQ(back, image_);
  outside_ = {};  // before the access that pinned its memory
}

// It stops between two pieces, and what it began is over.
TEST_F(OutsideImagesTest, ALoadThatIsNotWantedAnyMoreLeavesNothingUnderWay) {
  memory::SyntheticDevice device;
  const auto pool = device.allocate_pool(kSize).value();
  const auto access = memory::StreamPoolAccess::create(device).value();
  const lanes::OutsidePlace place{Tier::store, Bytes(0)};
  const auto sum = save(place);
  std::vector<std::shared_ptr<memory::Event>> events;
  const Status loaded = outside_.load(
      *access, pool->data(), kSize, place, sum.value(), [&](Bytes) { return events.size() < 2; },
      OutsideImages::Prefix(),
      [&](Bytes, std::shared_ptr<memory::Event> there) { events.push_back(std::move(there)); });
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::cancelled);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events.back()->query(), memory::EventState::done);
  outside_ = {};
}

// Takes no more memory of the CPU's after the first piece.
class PinsOnce final : public memory::PoolAccess {
 public:
  explicit PinsOnce(memory::Device& device)
      : access_(memory::StreamPoolAccess::create(device).value()) {}

  Status write(void* to_pool, const void* from, Bytes bytes) override {
    return access_->write(to_pool, from, bytes);
  }
  Status read(void* to, const void* from_pool, Bytes bytes) override {
    return access_->read(to, from_pool, bytes);
  }
  Status copy_within(void* to_pool, const void* from_pool, Bytes bytes) override {
    return access_->copy_within(to_pool, from_pool, bytes);
  }
  Status fill(void* to_pool, std::byte value, Bytes bytes) override {
    return access_->fill(to_pool, value, bytes);
  }
  Bytes piece() const override { return access_->piece(); }
  bool wants_pinned() const override { return true; }
  Result<std::unique_ptr<memory::MemoryBlock>> pin(std::byte* memory, Bytes bytes) override {
    if (pinned_end_ != nullptr) return Error{ErrorCode::out_of_memory, "no more"};
    pinned_end_ = memory + bytes.count();
    return access_->pin(memory, bytes);
  }
  // Other pieces come without the device, which does nothing meanwhile.
  Result<std::shared_ptr<memory::Event>> start_write(void* to_pool, const void* from,
                                                     Bytes bytes) override {
    if (static_cast<const std::byte*>(from) + bytes.count() <= pinned_end_) {
      return access_->start_write(to_pool, from, bytes);
    }
    std::memcpy(to_pool, from, static_cast<size_t>(bytes.count()));
    return std::shared_ptr<memory::Event>();
  }

 private:
  const std::unique_ptr<memory::StreamPoolAccess> access_;
  const std::byte* pinned_end_ = nullptr;
};

// What is told to be there has everything before it, also where a piece that the CPU copied comes
// behind some that the device copies.
TEST_F(OutsideImagesTest, WhereMemoryIsPinnedInPartNoPieceIsAheadOfThoseBeforeIt) {
  memory::SyntheticDevice device;
  const auto pool = device.allocate_pool(kSize).value();
  PinsOnce access(device);
  const lanes::OutsidePlace place{Tier::store, mib(10)};  // 6 of 9 MiB are in what is pinned
  ASSERT_TRUE(save(place).ok());
  std::vector<std::shared_ptr<memory::Event>> events;
  bool at_once = false;
  const Status loaded =
      outside_.load(access, pool->data(), kSize, place, 0, always_, OutsideImages::Prefix(),
                    [&](Bytes, std::shared_ptr<memory::Event> there) {
                      if (there != nullptr) return events.push_back(std::move(there));
                      at_once = true;
                      for (const auto& before : events)
                        EXPECT_EQ(before->query(), memory::EventState::done);
                    });
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_TRUE(at_once);
  EXPECT_EQ(events.size(), 1U);
  std::vector<uint8_t> back(image_.size());
  ASSERT_TRUE(access.read(back.data(), pool->data(), kSize).ok());
  EXPECT_EQ(back, image_);
  outside_ = {};
}

}  // namespace
}  // namespace laneway::pipeline
