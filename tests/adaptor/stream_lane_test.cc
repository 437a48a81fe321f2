// Shows that inputs and outputs pass through a lane in the order of its stream and arrive when
// their iteration was retired, however late the device is: on a device whose work runs when the
// crank is turned, where space that is reused too early gives wrong bytes; and on the host device,
// with a thread of its own for each stream, under the sanitizers.
#include "adaptor/device/stream_lane.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <vector>

#include "adaptor/device/limits.h"
#include "memory/device/host_device.h"
#include "tests/adaptor/paced_device.h"
#include "tests/support/seed.h"
#include "tests/support/synthetic_device.h"

namespace laneway::adaptor {
namespace {

// All but entering, which is torch's side.
class PlainLane final : public StreamLane {
 public:
  using StreamLane::accept;
  using StreamLane::refuse;
  using StreamLane::StreamLane;
  void enter(memory::LaneArena&, const lanes::NumericContext&) override {}
  void leave() override {}
  void suspend() override {}
  void resume(const lanes::NumericContext& /*context*/) override {}
  uint64_t address_hash() const override { return 0; }
};

std::unique_ptr<PlainLane> make_lane(memory::Device& device, const Clock& clock) {
  return std::make_unique<PlainLane>(device, device.create_stream().value(), clock);
}

std::vector<std::byte> pattern(size_t bytes, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> made(bytes);
  for (std::byte& byte : made) byte = static_cast<std::byte>(random.below(256));
  return made;
}

Bytes size_of(const std::vector<std::byte>& bytes) {
  return Bytes(static_cast<int64_t>(bytes.size()));
}

TEST(StreamLane, AnInputMayBeReusedAtOnceAndAnOutputArrivesWhenItsIterationIsRetired) {
  memory::SyntheticDevice device;
  const ManualClock clock;
  const auto pool = device.allocate_pool(mib(1)).value();
  const auto lane = make_lane(device, clock);
  std::vector<std::byte> input = pattern(1'000, 1);
  const std::vector<std::byte> sent = input;
  std::vector<std::byte> output(1'000);
  ASSERT_TRUE(lane->upload(pool->data(), input.data(), size_of(input)).ok());
  std::fill(input.begin(), input.end(), std::byte{0});
  ASSERT_TRUE(lane->download(output.data(), pool->data(), size_of(output)).ok());
  const auto enqueued = lane->enqueue();
  ASSERT_NE(enqueued, nullptr);
  EXPECT_FALSE(enqueued->done());
  device.run_all();
  EXPECT_TRUE(enqueued->done());
  EXPECT_EQ(output, std::vector<std::byte>(1'000));  // not before it is retired
  ASSERT_TRUE(enqueued->retire().ok());
  EXPECT_EQ(output, sent);
}

// Iterations of many sizes, several under way, retired in order and at random moments: each returns
// what it was sent, through one place on the device.
void run_iterations(memory::Device& device, Bytes largest, int iterations) {
  const uint64_t seed = laneway::testing::seed_from_environment(0x1a9e);
  Random random(seed);
  const SteadyClock clock;
  const auto pool = device.allocate_pool(largest).value();
  const auto lane = make_lane(device, clock);
  struct UnderWay {
    std::vector<std::byte> sent;
    std::vector<std::byte> received;
    std::unique_ptr<lanes::EnqueuedIteration> enqueued;
  };
  std::deque<UnderWay> air;
  // Takes it out first, so that a failure ends the loops below too.
  const auto retire_oldest = [&] {
    const UnderWay oldest = std::move(air.front());
    air.pop_front();
    EXPECT_TRUE(oldest.enqueued->retire().ok());
    EXPECT_TRUE(oldest.received == oldest.sent) << "of " << oldest.sent.size() << " bytes";
  };
  for (int i = 0; i < iterations; ++i) {
    UnderWay& now = air.emplace_back();
    now.sent = pattern(1 + random.below(static_cast<uint64_t>(largest.count())), seed + i);
    now.received.resize(now.sent.size());
    std::vector<std::byte> input = now.sent;
    ASSERT_TRUE(lane->upload(pool->data(), input.data(), size_of(input)).ok());
    std::fill(input.begin(), input.end(), std::byte{0xEE});
    for (uint64_t node = random.below(5); node > 0; --node) {
      ASSERT_TRUE(lane->node_enqueued().ok());
    }
    ASSERT_TRUE(lane->download(now.received.data(), pool->data(), size_of(now.received)).ok());
    now.enqueued = lane->enqueue();
    while (air.size() > limits::kMaxEnqueued) retire_oldest();
    if (random.below(3) == 0) retire_oldest();
  }
  while (!air.empty()) retire_oldest();
}

TEST(StreamLane, SpaceIsNotReusedBeforeTheDeviceIsDoneWithIt) {
  memory::SyntheticDevice device;
  run_iterations(device, kib(400), 60);
}

TEST(StreamLane, TheSameWithADeviceThatWorksBeside) {
  memory::HostDevice device;
  run_iterations(device, kib(400), 60);
}

TEST(StreamLane, LargeInputsGoInPieces) {
  memory::HostDevice device;
  run_iterations(device, limits::kStagingPiece * 2, 3);
}

// A limit that a test can afford to pass: the machine gives no pinned memory at all.
class Unpinned final : public memory::Device {
 public:
  const memory::Capabilities& capabilities() const override { return device_.capabilities(); }
  Result<std::unique_ptr<memory::MemoryBlock>> allocate_pool(Bytes size) override {
    return device_.allocate_pool(size);
  }
  Result<std::unique_ptr<memory::MemoryBlock>> allocate_host(Bytes) override {
    return Error{ErrorCode::out_of_memory, "no pinned memory"};
  }
  Result<std::unique_ptr<memory::MemoryBlock>> pin(std::byte*, Bytes size) override {
    return allocate_host(size);
  }
  Result<std::unique_ptr<memory::Stream>> create_stream() override {
    return device_.create_stream();
  }
  Result<std::unique_ptr<memory::Event>> create_event() override { return device_.create_event(); }

 private:
  memory::SyntheticDevice device_;
};

TEST(StreamLane, WithoutPinnedMemoryTheCallerWaits) {
  Unpinned device;
  run_iterations(device, kib(100), 50);
}

TEST(StreamLane, OutputsOfAnIterationThatWasGivenUpGoNowhere) {
  memory::SyntheticDevice device;
  const ManualClock clock;
  const auto pool = device.allocate_pool(mib(1)).value();
  const auto lane = make_lane(device, clock);
  std::vector<std::byte> output(100, std::byte{7});
  ASSERT_TRUE(lane->download(output.data(), pool->data(), size_of(output)).ok());
  lane->drop_downloads();
  EXPECT_EQ(device.pending(lane->stream()), 0u);
  const auto enqueued = lane->enqueue();
  ASSERT_TRUE(enqueued->retire().ok());
  EXPECT_EQ(output, std::vector<std::byte>(100, std::byte{7}));
}

TEST(StreamLane, AnIterationThatIsNotRetiredWaitsAndDeliversNothing) {
  memory::SyntheticDevice device;
  const ManualClock clock;
  const auto pool = device.allocate_pool(mib(1)).value();
  const auto lane = make_lane(device, clock);
  std::vector<std::byte> output(100, std::byte{7});
  ASSERT_TRUE(lane->download(output.data(), pool->data(), size_of(output)).ok());
  auto enqueued = lane->enqueue();
  enqueued.reset();
  EXPECT_EQ(device.pending(lane->stream()), 0u);
  EXPECT_EQ(output, std::vector<std::byte>(100, std::byte{7}));
}

TEST(StreamLane, AnIterationMayRetireWhenItsLaneIsGone) {
  memory::SyntheticDevice device;
  const ManualClock clock;
  const auto pool = device.allocate_pool(mib(1)).value();
  auto lane = make_lane(device, clock);
  const std::vector<std::byte> input = pattern(100, 3);
  std::vector<std::byte> output(100);
  ASSERT_TRUE(lane->upload(pool->data(), input.data(), size_of(input)).ok());
  ASSERT_TRUE(lane->download(output.data(), pool->data(), size_of(output)).ok());
  const auto enqueued = lane->enqueue();
  lane.reset();  // waits
  EXPECT_TRUE(enqueued->done());
  ASSERT_TRUE(enqueued->retire().ok());
  EXPECT_EQ(output, input);
}

TEST(StreamLane, DrainLeavesNothingEnqueued) {
  memory::SyntheticDevice device;
  const ManualClock clock;
  const auto lane = make_lane(device, clock);
  int ran = 0;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(lane->stream().host_function([&] { ++ran; }).ok());
    ASSERT_TRUE(lane->node_enqueued().ok());
  }
  ASSERT_TRUE(lane->drain().ok());
  EXPECT_EQ(ran, 10);
  EXPECT_EQ(device.pending(lane->stream()), 0u);
  EXPECT_EQ(lane->run_ahead().nodes_ahead(), 0u);
}

TEST(StreamLane, NothingIsMarkedWhileItIsWrittenDown) {
  memory::SyntheticDevice device;
  const ManualClock clock;
  const auto lane = make_lane(device, clock);
  lane->set_recording(true);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(lane->node_enqueued().ok());
  EXPECT_EQ(device.pending(lane->stream()), 0u);
  lane->set_recording(false);
  for (uint32_t i = 0; i < limits::kMaxNodesPerMark; ++i) {
    ASSERT_TRUE(lane->node_enqueued().ok());
  }
  EXPECT_GT(device.pending(lane->stream()), 0u);
}

TEST(StreamLane, AFullQueueIsWaitedFor) {
  memory::SyntheticDevice device;
  const ManualClock clock;
  const auto pool = device.allocate_pool(mib(1)).value();
  const auto lane = make_lane(device, clock);
  while (lane->stream().fill(pool->data(), std::byte{1}, Bytes(1)).ok()) {
  }
  const std::vector<std::byte> input = pattern(100, 4);
  ASSERT_TRUE(lane->upload(pool->data(), input.data(), size_of(input)).ok());
  EXPECT_EQ(device.pending(lane->stream()), 1u);
}

TEST(StreamLane, TheCallersMistakesAreNotTheDevices) {
  memory::SyntheticDevice device;
  const ManualClock clock;
  const auto lane = make_lane(device, clock);
  std::byte elsewhere[8] = {};
  const Status refused = lane->upload(elsewhere, elsewhere, Bytes(8));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
}

TEST(StreamLane, ALaneThatCouldNotBeEnteredTakesNothing) {
  memory::SyntheticDevice device;
  const ManualClock clock;
  const auto pool = device.allocate_pool(mib(1)).value();
  const auto lane = make_lane(device, clock);
  std::byte byte{};
  lane->refuse({ErrorCode::failed, "no handle"});
  for (const Status& status :
       {lane->upload(pool->data(), &byte, Bytes(1)), lane->download(&byte, pool->data(), Bytes(1)),
        lane->node_enqueued()}) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message, "no handle");
  }
  EXPECT_EQ(device.pending(lane->stream()), 0u);
  lane->accept();
  EXPECT_TRUE(lane->upload(pool->data(), &byte, Bytes(1)).ok());
}

TEST(StreamLane, AFailureOfTheDeviceIsDeviceLost) {
  ManualClock clock;
  testing::PacedDevice device(clock);
  const auto lane = make_lane(device, clock);
  const auto before = lane->enqueue();
  device.fail();
  for (const Status& status : {before->retire(), lane->drain(), lane->enqueue()->retire()}) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::device_lost);
    EXPECT_EQ(status.error().message, "the device is on fire");
  }
}

}  // namespace
}  // namespace laneway::adaptor
