// Each tier's images are its own store's, no place is believed, and what comes back is joined with
// the beginning that stayed in the pool. What every store holds is in outside_stores_test.cc.
#include "pipeline/outside_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "memory/host_pool_access.h"
#include "pipeline/host_store.h"
#include "pipeline/spill_store.h"

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
    outside_.add(Tier::store, std::make_unique<HostStore>(std::move(store).value()));
    outside_.add(Tier::spill, std::make_unique<SpillStore>(std::move(spill).value()));
  }
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
  const GoesOn always_ = [](Bytes) { return true; };
};

TEST_F(OutsideImagesTest, ComeBackAsTheyWere) {
  for (const Tier tier : {Tier::store, Tier::spill}) {
    const lanes::OutsidePlace place{tier, mib(8)};
    const auto sum = save(place);
    ASSERT_TRUE(sum.ok()) << sum.error().message;
    EXPECT_EQ(outside_.in_memory(place) != nullptr, tier == Tier::store);
    EXPECT_EQ(outside_.may_stall(tier), tier == Tier::spill);
    std::vector<uint8_t> back;
    ASSERT_TRUE(load(place, sum.value(), back).ok());
    EXPECT_EQ(back, image_);
  }
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

TEST_F(OutsideImagesTest, NoPlaceIsBelieved) {
  for (const lanes::OutsidePlace& place :
       {lanes::OutsidePlace{Tier::store, mib(24)}, lanes::OutsidePlace{Tier::spill, Bytes(-64)},
        lanes::OutsidePlace{Tier::none, Bytes(0)}}) {
    EXPECT_EQ(save(place).error().code, ErrorCode::internal);
  }
  EXPECT_FALSE(OutsideImages().exist());
  EXPECT_FALSE(OutsideImages().may_stall(Tier::spill));
  EXPECT_EQ(OutsideImages().in_memory({Tier::store, Bytes(0)}), nullptr);
}

}  // namespace
}  // namespace laneway::pipeline
