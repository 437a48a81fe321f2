// Shows when the CPU's part of a job's state is read from the image and written into it: read when
// the image was placed or somebody else wrote, and not otherwise; written whole; and when what was
// looked at once has to be looked at again.
#include "adaptor/run/state_mirror.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/limits.h"
#include "memory/host_pool_access.h"

namespace laneway::adaptor {
namespace {

using ::testing::ElementsAre;

// Copies at once, and counts.
class CountingLane final : public DeviceLane {
 public:
  void enter(memory::LaneArena& /*arena*/, const lanes::NumericContext& /*context*/) override {}
  void leave() override {}
  void suspend() override {}
  void resume(const lanes::NumericContext& /*context*/) override {}
  uint64_t address_hash() const override { return 0; }
  Status upload(void* to, const void* from, Bytes bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes.count()));
    ++uploads;
    return {};
  }
  Status download(void* /*to*/, const void* /*from*/, Bytes /*bytes*/) override { return {}; }
  Status node_enqueued() override { return {}; }
  Status recording_launched() override { return {}; }
  std::unique_ptr<lanes::EnqueuedIteration> enqueue() override { return nullptr; }
  void drop_downloads() override {}
  Status drain() override {
    ++drained;
    return {};
  }
  int drained = 0;
  int uploads = 0;
};

class Mirror : public ::testing::Test {
 protected:
  Mirror() { mirror_.bind(image_); }
  double& in_image(uint32_t slot) {
    return *reinterpret_cast<double*>(image_ + layout_.offset(slot).count());
  }
  double& here(uint32_t slot) {
    lanes::Value number;
    number.dtype = lanes::DType::float64;
    return *mirror_.storage()
                .view(number, static_cast<uint64_t>(mirror_.offset(slot).count()))
                .mutable_data_ptr<double>();
  }

  static std::vector<lanes::ImageSlot> slots() {
    return {{"step", lanes::SlotKind::optimizer_state, 8},
            {"weight", lanes::SlotKind::parameter, 1000},
            {"other step", lanes::SlotKind::optimizer_state, 8}};
  }

  const std::vector<uint32_t> on_cpu_{0, 2};
  const pipeline::ImageLayout layout_{slots(), placed_last(std::vector<uint32_t>{0, 1, 2}, on_cpu_),
                                      limits::kCudaAlignment};
  alignas(512) std::byte image_[4096] = {};
  memory::HostPoolAccess access_;
  StateMirror mirror_{layout_, on_cpu_, access_};
  CountingLane lane_;
};

TEST_F(Mirror, ItsSlotsAreTheLastOfTheImage) {
  EXPECT_THAT(placed_last(std::vector<uint32_t>{2, 0, 1}, std::vector<uint32_t>{0, 2}),
              ElementsAre(1U, 2U, 0U));
  EXPECT_EQ(mirror_.offset(0), Bytes(0));
  EXPECT_EQ(mirror_.offset(2), Bytes(512));
  EXPECT_FALSE(mirror_.has(1));
}

TEST_F(Mirror, ReadsWhatSomebodyElseWroteAndOnlyThen) {
  in_image(0) = 3;
  in_image(2) = 4;
  ASSERT_TRUE(mirror_.refresh(lane_));
  EXPECT_EQ(here(0), 3);
  EXPECT_EQ(here(2), 4);
  EXPECT_EQ(lane_.drained, 1);
  here(0) = 5;
  ASSERT_TRUE(mirror_.refresh(lane_));
  EXPECT_EQ(here(0), 5) << "nobody else wrote: the image is behind";
  EXPECT_EQ(lane_.drained, 1);
  for (const auto wrote : {&StateMirror::state_written, &StateMirror::written_on_device}) {
    in_image(0) += 10;
    const double written = in_image(0);
    (mirror_.*wrote)();
    ASSERT_TRUE(mirror_.refresh(lane_));
    EXPECT_EQ(here(0), written);
  }
}

TEST_F(Mirror, WritesItsSlotsAndNothingElse) {
  std::memset(image_, 0x11, sizeof(image_));
  ASSERT_TRUE(mirror_.refresh(lane_));
  here(0) = 7;
  here(2) = 8;
  ASSERT_TRUE(mirror_.flush(lane_, mirror_.pieces_of(on_cpu_)));
  EXPECT_EQ(lane_.uploads, 1) << "they lie together";
  EXPECT_EQ(in_image(0), 7);
  EXPECT_EQ(in_image(2), 8);
  EXPECT_EQ(image_[layout_.offset(1).count() + 999], std::byte{0x11});
  EXPECT_EQ(image_[layout_.total().count()], std::byte{0x11});
}

// A graph may have some of the mirror's slots on the device and write them there.
TEST_F(Mirror, LeavesThoseAloneThatTheGraphHasOnTheDevice) {
  const std::vector<uint32_t> order{1, 0, 2, 3};
  std::vector<lanes::ImageSlot> more = slots();
  more.push_back({"third step", lanes::SlotKind::optimizer_state, 8});
  const pipeline::ImageLayout layout(more, order, limits::kCudaAlignment);
  StateMirror mirror(layout, std::vector<uint32_t>{0, 2, 3}, access_);
  mirror.bind(image_);
  ASSERT_TRUE(mirror.refresh(lane_));
  std::memset(image_, 0x11, sizeof(image_));
  const std::vector<uint32_t> on_cpu{3, 0};
  ASSERT_TRUE(mirror.flush(lane_, mirror.pieces_of(on_cpu)));
  EXPECT_EQ(lane_.uploads, 2);
  const auto byte_of = [&](uint32_t slot) { return image_[layout.offset(slot).count()]; };
  EXPECT_EQ(byte_of(0), std::byte{0});
  EXPECT_EQ(byte_of(2), std::byte{0x11}) << "written on the device";
  EXPECT_EQ(byte_of(3), std::byte{0});
  EXPECT_EQ(byte_of(1), std::byte{0x11});
}

TEST_F(Mirror, SaysWhenStateMayHaveChangedUnderAGraph) {
  const int one = 1;
  const int two = 2;
  const uint64_t first = mirror_.begin(&one);
  EXPECT_EQ(mirror_.begin(&one), first);
  const uint64_t other = mirror_.begin(&two);
  EXPECT_NE(other, first);
  EXPECT_NE(mirror_.begin(&one), first) << "the other graph may have written";
  const uint64_t again = mirror_.begin(&one);
  mirror_.state_written();
  EXPECT_NE(mirror_.begin(&one), again);
}

}  // namespace
}  // namespace laneway::adaptor
