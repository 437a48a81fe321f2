// Shows that a state on a device that runs behind is that of before an iteration, or can be made
// it, whatever piece of the device's work was the last one that was done: on a device whose work
// runs when the crank is turned, streams in an order of chance, while the CPU has enqueued
// everything.
#include "service/worker/state/stream_undo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "memory/host_pool_access.h"
#include "tests/service/plain_lane.h"
#include "tests/support/graph_builder.h"
#include "tests/support/seed.h"
#include "tests/support/synthetic_device.h"

namespace laneway::service {
namespace {

constexpr JobId kJob(3);
constexpr uint64_t kNumber = 7;

// Writes slots 2, 0 and 3, the first of them twice.
lanes::Graph writing_graph() {
  testing::GraphBuilder b("writing");
  const auto input = b.input({1});
  for (const uint32_t slot : {2u, 0u, 2u, 3u}) {
    b.write("aten::add_.Tensor", b.slot(slot, {1}), {testing::arg(input)});
  }
  return b.finish();
}

// A job's image on a device, and the log of its lane.
class StreamUndo : public ::testing::Test {
 protected:
  StreamUndo() {
    std::vector<lanes::ImageSlot> slots;
    for (const uint64_t bytes : {100u, 40u, 3'000u, 0u}) {
      slots.push_back({.name = "slot", .bytes = bytes});
    }
    layout_ = pipeline::ImageLayout(slots, {}, 512);
    image_ = pool_->data() + 4096;
    for (int64_t i = 0; i < layout_.total().count(); ++i) {
      image_[i] = static_cast<std::byte>(random_.below(256));
    }
    before_ = bytes_of_image();
  }

  std::vector<std::byte> bytes_of_image() const {
    std::vector<std::byte> bytes(static_cast<size_t>(layout_.total().count()));
    std::memcpy(bytes.data(), image_, bytes.size());
    return bytes;
  }
  SavedImage saved_image() const { return {.base = image_, .layout = layout_, .writes = writes_}; }
  // Of the iteration: what its nodes write, in parts.
  void enqueue_writes() {
    for (const uint32_t slot : writes_.slots()) {
      const auto bytes = static_cast<int64_t>(layout_.slot(slot).bytes);
      for (int64_t at = 0; at < bytes; at += 64) {
        const Bytes part(std::min<int64_t>(64, bytes - at));
        ASSERT_TRUE(lane_->stream().fill(image_ + layout_.offset(slot).count() + at,
                                         std::byte{0xee}, part));
      }
    }
  }
  // What a successor makes of the pool and the log as they are now.
  std::vector<std::byte> undone() {
    std::vector<std::byte> memory = memory_;
    std::vector<std::byte> image = bytes_of_image();
    const UndoLog log{std::span<std::byte>(memory)};
    EXPECT_TRUE(log.is_of(kJob, kNumber));
    EXPECT_TRUE(log.restore(image.size(), [&](uint64_t at, std::span<const std::byte> bytes) {
      std::memcpy(image.data() + at, bytes.data(), bytes.size());
      return true;
    }));
    return image;
  }

  Random random_{testing::seed_from_environment(11)};
  memory::SyntheticDevice device_;
  memory::HostPoolAccess access_;
  const ManualClock clock_;
  std::unique_ptr<memory::MemoryBlock> pool_ = device_.allocate_pool(mib(1)).value();
  std::unique_ptr<testing::PlainLane> lane_ =
      std::make_unique<testing::PlainLane>(device_, device_.create_stream().value(), clock_);
  const WriteSet writes_{writing_graph()};
  pipeline::ImageLayout layout_;
  std::byte* image_ = nullptr;
  std::vector<std::byte> before_;
  std::vector<std::byte> memory_ =
      std::vector<std::byte>(static_cast<size_t>(UndoLog::room_for(3, Bytes(3'200)).count()));
  UndoLog log_{std::span<std::byte>(memory_)};
};

TEST_F(StreamUndo, ADeathBehindAnyPieceOfTheDevicesWorkCanBeUndone) {
  constexpr int kRounds = 20;
  int torn = 0;
  int untouched = 0;
  const auto other = device_.create_stream().value();
  for (int round = 0; round < kRounds; ++round) {
    // What the nodes before the first write left in the stream, and somebody else's work.
    for (uint64_t i = random_.below(5); i > 0; --i) {
      ASSERT_TRUE(lane_->stream().fill(pool_->data(), std::byte{1}, Bytes(64)));
      ASSERT_TRUE(other->fill(pool_->data() + 1024, std::byte{2}, Bytes(64)));
    }
    log_.begin(kJob, kNumber);
    ASSERT_TRUE(save_in_order(log_, saved_image(), *lane_, access_));
    enqueue_writes();
    EXPECT_EQ(undone(), before_) << "nothing was done, and all is enqueued";
    while (device_.run_any(random_)) {
      EXPECT_EQ(undone(), before_);
      const bool written = bytes_of_image() != before_;
      if (written) {
        EXPECT_NE(log_.saved().load(), 0U) << "the mark comes before the first write";
      }
      ++(written ? torn : untouched);
    }
    lane_->drop_downloads();
    std::copy(before_.begin(), before_.end(), image_);
  }
  EXPECT_GT(torn, kRounds);
  EXPECT_GT(untouched, kRounds);
}

TEST_F(StreamUndo, WhileALaneRecordsAllIsSavedAtOnce) {
  log_.begin(kJob, kNumber);
  lane_->set_recording(true);
  ASSERT_TRUE(save_in_order(log_, saved_image(), *lane_, access_));
  lane_->set_recording(false);
  EXPECT_EQ(device_.pending(lane_->stream()), 0U) << "what is recorded is launched many times";
  std::fill_n(image_, layout_.total().count(), std::byte{0xee});
  const std::vector<std::byte> after = undone();
  for (const uint32_t slot : writes_.slots()) {
    const int64_t at = layout_.offset(slot).count();
    const auto bytes = static_cast<int64_t>(layout_.slot(slot).bytes);
    EXPECT_TRUE(std::equal(after.begin() + at, after.begin() + at + bytes, before_.begin() + at));
  }
}

TEST_F(StreamUndo, AnImageThatCannotBeWrittenIsNotTakenForRestored) {
  log_.begin(kJob, kNumber);
  ASSERT_TRUE(save_in_order(log_, saved_image(), *lane_, access_));
  ASSERT_TRUE(lane_->drain());
  EXPECT_FALSE(
      log_.restore(before_.size(), [](uint64_t, std::span<const std::byte>) { return false; }));
}

}  // namespace
}  // namespace laneway::service
