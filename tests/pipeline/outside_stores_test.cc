// What every store holds, whatever it is made of: an image comes back as it was, to its successor
// too; a copy stops between two pieces when it is not wanted, and tells of no byte ahead of its
// time; what the pool refuses is said; other images stay as they are; bytes that changed are
// noticed where the store can't be relied on. A new kind is one more row of kKinds.
#include "pipeline/outside_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "memory/host_pool_access.h"
#include "memory/os/owned_descriptor.h"
#include "memory/stream_pool_access.h"
#include "pipeline/host_store.h"
#include "pipeline/spill_store.h"
#include "tests/support/synthetic_device.h"

namespace laneway::pipeline {
namespace {

constexpr Bytes kStore = mib(32);

int again(int descriptor) { return ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0); }

struct Kind {
  const char* name;
  // What its bytes lie in; a store over it, of which there may be several in turn.
  memory::OwnedDescriptor (*make)();
  std::unique_ptr<OutsideStore> (*open)(int descriptor);
};

constexpr Kind kKinds[] = {
    {"host",
     [] {
       const auto made = memory::SharedMemory::create("store", kStore);
       return memory::OwnedDescriptor(again(made.value().descriptor()));
     },
     [](int descriptor) -> std::unique_ptr<OutsideStore> {
       return std::make_unique<HostStore>(
           memory::SharedMemory::attach(again(descriptor), kStore).value());
     }},
    {"spill",
     [] {
       const auto made = memory::SpillFile::create(testing::TempDir(), kStore);
       return memory::OwnedDescriptor(again(made.value().descriptor()));
     },
     [](int descriptor) -> std::unique_ptr<OutsideStore> {
       return std::make_unique<SpillStore>(
           memory::SpillFile::attach(again(descriptor), kStore).value());
     }},
};

std::vector<uint8_t> image_of(Bytes size, uint8_t first) {
  std::vector<uint8_t> image(static_cast<size_t>(size.count()));
  std::iota(image.begin(), image.end(), first);
  return image;
}

std::byte* bytes_of(std::vector<uint8_t>& image) {
  return reinterpret_cast<std::byte*>(image.data());
}

const GoesOn kAlways = [](Bytes) { return true; };
const Started kNobody = [](Bytes, const std::shared_ptr<memory::Event>&) {};

class OutsideStores : public testing::TestWithParam<Kind> {
 protected:
  // Saves it; the place is what a load is given.
  OutsideStore::Saved save(std::vector<uint8_t>& image, Bytes at) {
    const Bytes size(static_cast<int64_t>(image.size()));
    const auto sum = store_->save(pool_, bytes_of(image), size, at, kAlways);
    EXPECT_TRUE(sum.ok()) << sum.error().message;
    return {at, size, sum.ok() ? sum.value() : 0};
  }
  std::vector<uint8_t> load(OutsideStore& from, const OutsideStore::Saved& saved) {
    std::vector<uint8_t> back(static_cast<size_t>(saved.size.count()));
    const Status loaded = from.load(pool_, bytes_of(back), saved, Bytes(), kAlways, kNobody);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    return back;
  }

  const memory::OwnedDescriptor bytes_ = GetParam().make();
  memory::HostPoolAccess pool_;
  memory::SyntheticDevice device_;
  std::unique_ptr<OutsideStore> store_ = GetParam().open(bytes_.get());
};

TEST_P(OutsideStores, AnImageComesBackAsItWas) {
  EXPECT_EQ(store_->size(), kStore);
  for (const Bytes size : {Bytes(1), Bytes(4097), mib(1), mib(9) + Bytes(7), kStore}) {
    std::vector<uint8_t> image = image_of(size, 3);
    EXPECT_EQ(load(*store_, save(image, kStore - size)), image) << format_bytes(size);
  }
}

TEST_P(OutsideStores, ImagesLeaveOneAnotherAlone) {
  std::vector<uint8_t> first = image_of(mib(5), 1);
  std::vector<uint8_t> second = image_of(mib(4) + Bytes(11), 2);
  std::vector<uint8_t> third = image_of(mib(5), 3);
  const auto at_first = save(first, Bytes());
  const auto at_third = save(third, mib(10));
  const auto at_second = save(second, mib(5));
  EXPECT_EQ(load(*store_, at_first), first);
  EXPECT_EQ(load(*store_, at_second), second);
  EXPECT_EQ(load(*store_, at_third), third);
}

TEST_P(OutsideStores, ASuccessorFindsWhatWasSaved) {
  std::vector<uint8_t> image = image_of(mib(9), 5);
  const auto saved = save(image, mib(8));
  store_.reset();
  EXPECT_EQ(load(*GetParam().open(bytes_.get()), saved), image);
}

TEST_P(OutsideStores, ASaveStopsWhenTheImageIsNotWanted) {
  std::vector<uint8_t> image = image_of(mib(9), 0);
  Bytes seen;
  const auto saved = store_->save(pool_, bytes_of(image), mib(9), Bytes(), [&](Bytes moved) {
    seen = moved;
    return moved == Bytes();
  });
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().code, ErrorCode::cancelled);
  EXPECT_EQ(seen, mib(1));
}

// The figure that is told never runs ahead of the bytes, and grows to the whole.
TEST_P(OutsideStores, WhatIsToldToBeThereIsThere) {
  std::vector<uint8_t> image = image_of(mib(9) + Bytes(5), 7);
  const auto saved = save(image, mib(1));
  for (const Bytes there : {Bytes(), Bytes(64), mib(3) + Bytes(4097), saved.size - Bytes(1)}) {
    std::vector<uint8_t> back(image.size());
    std::copy_n(image.begin(), there.count(), back.begin());
    Bytes told = there;
    const auto holds = [&](Bytes bytes) {
      return std::equal(back.begin(), back.begin() + bytes.count(), image.begin());
    };
    const Status loaded =
        store_->load(pool_, bytes_of(back), saved, there, holds,
                     [&](Bytes bytes, const std::shared_ptr<memory::Event>& event) {
                       EXPECT_GT(bytes, told);
                       EXPECT_EQ(event, nullptr) << "no device copies here";
                       EXPECT_TRUE(holds(bytes));
                       told = bytes;
                     });
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(told, saved.size);
    EXPECT_EQ(back, image);
  }
}

// By a device that does nothing before somebody waits for it.
TEST_P(OutsideStores, NothingIsUnderWayWhenALoadIsOver) {
  std::vector<uint8_t> image = image_of(mib(9), 9);
  const auto saved = save(image, Bytes());
  const auto pool = device_.allocate_pool(mib(9)).value();
  const auto access = memory::StreamPoolAccess::create(device_).value();
  for (const bool wanted : {true, false}) {
    std::vector<std::shared_ptr<memory::Event>> events;
    const Status loaded = store_->load(
        *access, pool->data(), saved, Bytes(), [&](Bytes) { return wanted || events.size() < 2; },
        [&](Bytes, std::shared_ptr<memory::Event> there) { events.push_back(std::move(there)); });
    EXPECT_EQ(loaded.ok(), wanted);
    EXPECT_TRUE(wanted || loaded.error().code == ErrorCode::cancelled);
    ASSERT_GE(events.size(), 2U);
    for (const auto& there : events) {
      EXPECT_TRUE(there == nullptr || there->query() == memory::EventState::done);
    }
  }
  store_.reset();  // before the access that pinned its memory
}

// A pool whose third piece fails.
class FailsAtThird final : public memory::PoolAccess {
 public:
  Status write(void* to_pool, const void* from, Bytes bytes) override {
    return next() ? host_.write(to_pool, from, bytes) : lost();
  }
  Status read(void* to, const void* from_pool, Bytes bytes) override {
    return next() ? host_.read(to, from_pool, bytes) : lost();
  }
  Status copy_within(void* to_pool, const void* from_pool, Bytes bytes) override {
    return host_.copy_within(to_pool, from_pool, bytes);
  }
  Status fill(void* to_pool, std::byte value, Bytes bytes) override {
    return host_.fill(to_pool, value, bytes);
  }

 private:
  bool next() { return ++pieces_ < 3; }
  static Status lost() { return Error{ErrorCode::device_lost, "the device is gone"}; }

  memory::HostPoolAccess host_;
  int pieces_ = 0;
};

TEST_P(OutsideStores, WhatThePoolSaysIsHandedOn) {
  std::vector<uint8_t> image = image_of(mib(9), 0);
  const auto saved = save(image, Bytes());
  FailsAtThird reads;
  const auto again = store_->save(reads, bytes_of(image), mib(9), mib(16), kAlways);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, ErrorCode::device_lost);
  FailsAtThird writes;
  Bytes told;
  const Status loaded = store_->load(writes, bytes_of(image), saved, Bytes(), kAlways,
                                     [&](Bytes bytes, const auto&) { told = bytes; });
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::device_lost);
  EXPECT_LT(told, mib(9));
}

// Memory gives back what it got, and needs no checksum; whatever else a store is made of has one.
TEST_P(OutsideStores, ChangedBytesAreNoticedWhereTheStoreIsNoMemory) {
  std::vector<uint8_t> image = image_of(mib(9), 0);
  const auto saved = save(image, mib(2));
  EXPECT_EQ(saved.checksum == 0, store_->in_memory() != nullptr);
  if (store_->in_memory() != nullptr) return;
  ASSERT_EQ(::pwrite(bytes_.get(), "x", 1, mib(7).count()), 1);
  std::vector<uint8_t> back(image.size());
  const Status loaded = store_->load(pool_, bytes_of(back), saved, Bytes(), kAlways, kNobody);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::failed);
}

INSTANTIATE_TEST_SUITE_P(Kinds, OutsideStores, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace laneway::pipeline
