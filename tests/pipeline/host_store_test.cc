// HostStore beside a device: its copies are started ahead, no more of them than the limit says, and
// no piece is told of before those in front of it, also where only a part could be pinned.
#include "pipeline/host_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "memory/host_pool_access.h"
#include "memory/stream_pool_access.h"
#include "tests/support/synthetic_device.h"

namespace laneway::pipeline {
namespace {

constexpr Bytes kSize = mib(9);

class HostStoreTest : public testing::Test {
 protected:
  HostStoreTest() : image_(static_cast<size_t>(kSize.count())) {
    std::iota(image_.begin(), image_.end(), uint8_t{0});
    store_.emplace(memory::SharedMemory::create("store", mib(32)).value());
  }
  std::byte* image() { return reinterpret_cast<std::byte*>(image_.data()); }

  std::vector<uint8_t> image_;
  std::optional<HostStore> store_;
  const GoesOn always_ = [](Bytes) { return true; };
};

// By a device that does nothing before somebody waits for it: what was told of is there behind its
// event, no more is under way than the limit says, and nothing when the call is over.
TEST_F(HostStoreTest, ADeviceTakesTheStoresBytesByItself) {
  memory::SyntheticDevice device;
  const auto pool = device.allocate_pool(kSize * 10).value();
  const auto access = memory::StreamPoolAccess::create(device).value();
  const Bytes at = mib(8) + kib(4);
  ASSERT_TRUE(access->write(pool->data(), image(), kSize).ok());
  const auto saved = store_->save(*access, pool->data(), kSize, at, always_);
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  std::byte* const target = pool->data() + kSize.count();
  std::vector<std::shared_ptr<memory::Event>> events;
  Bytes told;
  const Status loaded = store_->load(*access, target, {at, kSize}, Bytes(), always_,
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
  store_.reset();  // before the access that pinned its memory
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
TEST_F(HostStoreTest, WhereMemoryIsPinnedInPartNoPieceIsAheadOfThoseBeforeIt) {
  memory::SyntheticDevice device;
  const auto pool = device.allocate_pool(kSize).value();
  PinsOnce access(device);
  const Bytes at = mib(10);  // 6 of 9 MiB are in what is pinned
  memory::HostPoolAccess host;
  ASSERT_TRUE(store_->save(host, image(), kSize, at, always_).ok());
  std::vector<std::shared_ptr<memory::Event>> events;
  bool at_once = false;
  const Status loaded = store_->load(access, pool->data(), {at, kSize}, Bytes(), always_,
                                     [&](Bytes, std::shared_ptr<memory::Event> there) {
                                       if (there != nullptr)
                                         return events.push_back(std::move(there));
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
  store_.reset();
}

}  // namespace
}  // namespace laneway::pipeline
