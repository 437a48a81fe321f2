// The contract of memory/device/device.h, held against every device there is: the same tests, with
// nothing but the interface and the capabilities. A new device is one more row (device_rows.h).
//
// On a device that advances by itself work may be done early, on one that does not it is certainly
// late; a test that passes on both does not depend on when.
#include "memory/device/device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "memory/device/limits.h"
#include "memory/os/shared_memory.h"
#include "tests/conformance/device_rows.h"
#include "tests/support/seed.h"

namespace laneway::memory {
namespace {

class DeviceConformance : public ::testing::TestWithParam<DeviceRow> {
 protected:
  void SetUp() override {
    device_ = GetParam().open();
    if (device_ == nullptr) GTEST_SKIP() << "no such device here";
  }
  std::unique_ptr<MemoryBlock> pool(Bytes size) { return device_->allocate_pool(size).value(); }
  std::unique_ptr<MemoryBlock> host(Bytes size) { return device_->allocate_host(size).value(); }
  std::unique_ptr<Stream> stream() { return device_->create_stream().value(); }
  std::unique_ptr<Event> event() { return device_->create_event().value(); }
  // The pool's bytes as the CPU sees them after a copy.
  std::vector<std::byte> read(Stream& stream, const std::byte* from, size_t count) {
    std::vector<std::byte> bytes(count);
    EXPECT_TRUE(stream.copy_to_host(bytes.data(), from, Bytes(int64_t(count))).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return bytes;
  }

  std::unique_ptr<Device> device_;
};

TEST_P(DeviceConformance, PoolMemoryIsZeroAlignedAndOfTheAskedSize) {
  const auto block = pool(kib(100));
  EXPECT_EQ(block->size(), kib(100));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data()) % 4096, 0u);
  EXPECT_EQ(4096 % device_->capabilities().alignment, 0);
  const auto to = stream();
  EXPECT_EQ(read(*to, block->data(), 100 << 10), std::vector<std::byte>(100 << 10));
  EXPECT_EQ(block->descriptor() >= 0, device_->capabilities().pool_is_exportable);
}

TEST_P(DeviceConformance, ImpossibleSizesAreErrorsNotAborts) {
  for (const int64_t size : {int64_t{0}, int64_t{-1}}) {
    EXPECT_EQ(device_->allocate_pool(Bytes(size)).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(device_->allocate_host(Bytes(size)).error().code, ErrorCode::invalid_argument);
    std::byte here{};
    EXPECT_EQ(device_->pin(&here, Bytes(size)).error().code, ErrorCode::invalid_argument);
  }
  const Bytes huge(int64_t{1} << 56);
  for (const auto& made : {device_->allocate_pool(huge), device_->allocate_host(huge)}) {
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, ErrorCode::out_of_memory);
    EXPECT_NE(made.error().message.find("65536 TiB"), std::string::npos) << made.error().message;
  }
}

// Memory of the caller's is copied from and to like any, while it is pinned and when it is not any
// more; it can be pinned again.
TEST_P(DeviceConformance, PinnedMemoryIsTheCallers) {
  const auto block = pool(kib(8));
  const auto own = SharedMemory::create("pinned", kib(8));
  ASSERT_TRUE(own.ok());
  std::byte* const memory = own.value().data();
  const auto one = stream();
  for (int round = 0; round < 2; ++round) {
    std::memset(memory, 5 + round, 8192);
    auto pinned = device_->pin(memory, kib(8));
    ASSERT_TRUE(pinned.ok()) << pinned.error().message;
    EXPECT_EQ(pinned.value()->data(), memory);
    EXPECT_EQ(pinned.value()->size(), kib(8));
    EXPECT_EQ(pinned.value()->descriptor(), -1);
    ASSERT_TRUE(one->copy_to_device(block->data(), memory, kib(8)).ok());
    ASSERT_TRUE(one->fill(block->data(), std::byte{1}, kib(4)).ok());
    ASSERT_TRUE(one->copy_to_host(memory, block->data(), kib(8)).ok());
    ASSERT_TRUE(one->synchronize().ok());
    pinned.value().reset();
    EXPECT_EQ(memory[4095], std::byte{1});
    EXPECT_EQ(memory[4096], std::byte(5 + round));
  }
}

TEST_P(DeviceConformance, CopiesAndFillsHappenInTheStreamsOrder) {
  const auto block = pool(kib(8));
  const auto source = host(kib(4));
  const auto target = host(kib(4));
  const auto one = stream();
  std::memset(source->data(), 7, 4096);
  ASSERT_TRUE(one->fill(block->data(), std::byte{1}, kib(8)).ok());
  ASSERT_TRUE(one->copy_to_device(block->data(), source->data(), kib(4)).ok());
  ASSERT_TRUE(one->fill(block->data() + 100, std::byte{9}, Bytes(10)).ok());
  ASSERT_TRUE(one->copy_on_device(block->data() + 4096, block->data(), kib(4)).ok());
  ASSERT_TRUE(one->fill(block->data(), std::byte{2}, kib(4)).ok());
  ASSERT_TRUE(one->copy_to_host(target->data(), block->data() + 4096, kib(4)).ok());
  ASSERT_TRUE(one->synchronize().ok());
  for (size_t i = 0; i < 4096; ++i) {
    ASSERT_EQ(target->data()[i], std::byte(i >= 100 && i < 110 ? 9 : 7)) << i;
  }
  EXPECT_EQ(read(*one, block->data(), 4096), std::vector<std::byte>(4096, std::byte{2}));
}

TEST_P(DeviceConformance, AddressesOutsideTheDeviceAreRefused) {
  const auto block = pool(kib(4));
  const auto outside = host(kib(4));
  const auto one = stream();
  const auto refused = [](const Status& status) {
    return !status.ok() && status.error().code == ErrorCode::invalid_argument;
  };
  EXPECT_TRUE(refused(one->copy_to_device(outside->data(), outside->data(), Bytes(1))));
  EXPECT_TRUE(refused(one->copy_to_device(block->data() + 1, outside->data(), kib(4))));
  EXPECT_TRUE(refused(one->copy_to_host(outside->data(), outside->data(), Bytes(1))));
  EXPECT_TRUE(refused(one->copy_on_device(block->data(), outside->data(), Bytes(1))));
  EXPECT_TRUE(refused(one->copy_on_device(outside->data(), block->data(), Bytes(1))));
  EXPECT_TRUE(refused(one->fill(block->data() - 1, std::byte{1}, Bytes(2))));
  EXPECT_TRUE(refused(one->fill(block->data(), std::byte{1}, Bytes(-1))));
  EXPECT_TRUE(one->fill(block->data(), std::byte{1}, kib(4)).ok());
  EXPECT_TRUE(one->synchronize().ok());
}

TEST_P(DeviceConformance, MemoryGivenBackIsNoLongerTheDevices) {
  const auto one = stream();
  auto block = pool(kib(4));
  std::byte* address = block->data();
  block.reset();
  EXPECT_FALSE(one->fill(address, std::byte{1}, Bytes(1)).ok());
}

TEST_P(DeviceConformance, HostFunctionsRunInOrderAndSeeTheWorkBefore) {
  const auto block = pool(kib(4));
  const auto target = host(kib(4));
  const auto one = stream();
  std::vector<int> seen;
  for (int i = 1; i <= 50; ++i) {
    ASSERT_TRUE(one->fill(block->data(), std::byte(i), kib(4)).ok());
    ASSERT_TRUE(one->copy_to_host(target->data(), block->data(), kib(4)).ok());
    ASSERT_TRUE(one->host_function([&seen, &target] {
                     seen.push_back(std::to_integer<int>(target->data()[4095]));
                   })
                    .ok());
  }
  ASSERT_TRUE(one->synchronize().ok());
  ASSERT_EQ(seen.size(), 50u);
  for (int i = 1; i <= 50; ++i) EXPECT_EQ(seen[size_t(i) - 1], i);
}

TEST_P(DeviceConformance, EventsNeverRecordedAreDone) {
  const auto never = event();
  EXPECT_EQ(never->query(), EventState::done);
  EXPECT_TRUE(never->synchronize().ok());
  const auto one = stream();
  EXPECT_TRUE(one->wait(*never).ok());
  EXPECT_TRUE(one->synchronize().ok());
}

TEST_P(DeviceConformance, AnEventIsDoneWhenTheWorkBeforeItIs) {
  const auto one = stream();
  const auto mark = event();
  std::atomic<bool> before{false};
  std::atomic<bool> release{false};
  ASSERT_TRUE(one->host_function([&] {
                   while (device_->capabilities().advances_by_itself && !release) {
                     std::this_thread::yield();
                   }
                   before = true;
                 })
                  .ok());
  ASSERT_TRUE(one->record(*mark).ok());
  EXPECT_EQ(mark->query(), EventState::pending);
  release = true;
  ASSERT_TRUE(mark->synchronize().ok());
  EXPECT_TRUE(before);
  EXPECT_EQ(mark->query(), EventState::done);
}

TEST_P(DeviceConformance, AStreamWaitsForAnotherByAnEvent) {
  const auto block = pool(kib(4));
  const auto target = host(kib(4));
  const auto writer = stream();
  const auto reader = stream();
  for (int i = 1; i <= 20; ++i) {
    const auto written = event();
    const auto was_read = event();
    ASSERT_TRUE(writer->fill(block->data(), std::byte(i), kib(4)).ok());
    ASSERT_TRUE(writer->record(*written).ok());
    ASSERT_TRUE(reader->wait(*written).ok());
    ASSERT_TRUE(reader->copy_to_host(target->data(), block->data(), kib(4)).ok());
    ASSERT_TRUE(reader->record(*was_read).ok());
    ASSERT_TRUE(writer->wait(*was_read).ok());
    ASSERT_TRUE(reader->synchronize().ok());
    ASSERT_EQ(target->data()[4095], std::byte(i));
  }
  ASSERT_TRUE(writer->synchronize().ok());
}

// A wait refers to the record that was the latest then, whatever is recorded later and wherever.
TEST_P(DeviceConformance, AWaitRefersToTheRecordOfItsTime) {
  const auto slow = stream();
  const auto quick = stream();
  const auto waiter = stream();
  const auto mark = event();
  const auto gate = event();
  std::atomic<bool> slow_done{false};
  std::atomic<bool> in_order{false};
  std::atomic<bool> release{false};
  ASSERT_TRUE(slow->host_function([&] {
                    while (device_->capabilities().advances_by_itself && !release) {
                      std::this_thread::yield();
                    }
                    slow_done = true;
                  })
                  .ok());
  ASSERT_TRUE(slow->record(*mark).ok());
  ASSERT_TRUE(waiter->wait(*mark).ok());
  ASSERT_TRUE(waiter->host_function([&] { in_order = slow_done.load(); }).ok());
  ASSERT_TRUE(quick->record(*mark).ok());  // again, elsewhere, and done at once
  ASSERT_TRUE(mark->synchronize().ok());
  release = true;
  ASSERT_TRUE(waiter->synchronize().ok());
  EXPECT_TRUE(in_order);
  ASSERT_TRUE(slow->synchronize().ok());
}

TEST_P(DeviceConformance, WorkOutlivesTheEventObject) {
  const auto first = stream();
  const auto second = stream();
  int order = 0;
  {
    const auto mark = event();
    ASSERT_TRUE(first->host_function([&] { order = order * 10 + 1; }).ok());
    ASSERT_TRUE(first->record(*mark).ok());
    ASSERT_TRUE(second->wait(*mark).ok());
  }
  ASSERT_TRUE(second->host_function([&] { order = order * 10 + 2; }).ok());
  ASSERT_TRUE(second->synchronize().ok());
  EXPECT_EQ(order, 12);
}

TEST_P(DeviceConformance, DestroyingAStreamFinishesItsWork) {
  std::atomic<int> ran{0};
  auto one = stream();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(one->host_function([&] { ++ran; }).ok());
  one.reset();
  EXPECT_EQ(ran, 100);
}

TEST_P(DeviceConformance, AFullQueueIsAnOutcome) {
  if (device_->capabilities().full_queue_waits) GTEST_SKIP() << "a full queue waits here";
  const auto one = stream();
  std::atomic<bool> release{false};
  ASSERT_TRUE(one->host_function([&] {
                   while (device_->capabilities().advances_by_itself && !release) {
                     std::this_thread::yield();
                   }
                 })
                  .ok());
  uint32_t enqueued = 1;
  Status last;
  while (enqueued <= limits::kMaxStreamQueue && last.ok()) {
    last = one->host_function([] {});
    enqueued += last.ok() ? 1 : 0;
  }
  EXPECT_EQ(enqueued, limits::kMaxStreamQueue);
  ASSERT_FALSE(last.ok());
  EXPECT_EQ(last.error().code, ErrorCode::refused);
  release = true;
  ASSERT_TRUE(one->synchronize().ok());
  EXPECT_TRUE(one->host_function([] {}).ok());
}

// Where a full queue waits for the device, no work is lost in it. The device begins when there is
// more than nothing in it and less than any queue holds: then it is filled while it is emptied.
// CUDA's queues hold about a thousand pieces, and a function of the host takes it some ten
// microseconds.
TEST_P(DeviceConformance, AQueueThatWaitsTakesMoreThanItHolds) {
  if (!device_->capabilities().full_queue_waits) GTEST_SKIP() << "a full queue refuses here";
  constexpr uint32_t kPieces = 10'000;
  const auto one = stream();
  std::atomic<uint32_t> enqueued{0};
  uint32_t ran = 0;
  bool in_order = true;
  ASSERT_TRUE(one->host_function([&] {
                   while (enqueued < 100) std::this_thread::yield();
                 })
                  .ok());
  for (uint32_t i = 0; i < kPieces; ++i) {
    const auto next = [&, i] { in_order = in_order && ran++ == i; };
    Status sent = one->host_function(next);
    if (!sent.ok() && sent.error().code == ErrorCode::refused) {  // the queue was faster
      ASSERT_TRUE(one->synchronize().ok());
      sent = one->host_function(next);
    }
    ASSERT_TRUE(sent.ok()) << sent.error().message;
    ++enqueued;
  }
  ASSERT_TRUE(one->synchronize().ok());
  EXPECT_EQ(ran, kPieces);
  EXPECT_TRUE(in_order);
}

// Random programs over several streams and events, with every cross-stream dependency made by an
// event, against running the same program in enqueue order.
TEST_P(DeviceConformance, RandomProgramsOrderedByEventsGiveTheSerialResult) {
  constexpr int64_t kCells = 8;
  constexpr int64_t kCell = 512;
  Random random(testing::seed_from_environment(30));
  for (int round = 0; round < 10; ++round) {
    const auto block = pool(Bytes(kCells * kCell));
    std::vector<std::unique_ptr<Stream>> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(stream());
    std::vector<std::unique_ptr<Event>> last(kCells);  // who touched the cell last
    std::vector<std::byte> serial(kCells);
    for (int step = 0; step < 60; ++step) {
      Stream& on = *streams[random.below(streams.size())];
      const size_t to = random.below(kCells);
      const size_t from = random.below(kCells);
      for (const size_t cell : {to, from}) {
        if (last[cell] == nullptr) continue;
        ASSERT_TRUE(on.wait(*last[cell]).ok());
      }
      if (to == from || random.chance(0.4)) {
        const auto value = std::byte(random.below(256));
        serial[to] = value;
        ASSERT_TRUE(on.fill(block->data() + int64_t(to) * kCell, value, Bytes(kCell)).ok());
      } else {
        serial[to] = serial[from];
        ASSERT_TRUE(on.copy_on_device(block->data() + int64_t(to) * kCell,
                                      block->data() + int64_t(from) * kCell, Bytes(kCell))
                        .ok());
      }
      for (const size_t cell : {to, from}) {
        last[cell] = event();
        ASSERT_TRUE(on.record(*last[cell]).ok());
      }
    }
    for (const auto& each : streams) ASSERT_TRUE(each->synchronize().ok());
    const auto bytes = read(*streams[0], block->data(), kCells * kCell);
    for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], serial[i / kCell]);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceConformance, ::testing::ValuesIn(device_rows()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace laneway::memory
