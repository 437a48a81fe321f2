// The pool gets another size: what lies above its new end moves or leaves, also what only finds no
// room below it; nobody waits for ever; what could not be is refused before it begins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

using testing::HasSubstr;
using Jobs = std::vector<uint64_t>;

class CapacityTest : public SchedulerTest {
 protected:
  CapacityTest() { store_ = units(200); }
  void idle(uint64_t id, int64_t persistent, int64_t ephemeral = 10) {
    offer(id, persistent, ephemeral);
    place(id);
  }
  std::vector<Action> resize(int64_t to) { return send(CapacityChanged{units(to)}); }
  std::vector<Action> left(uint64_t id) { return send(ImageLeft{JobId(id)}); }
  Bytes capacity() const { return scheduler_->pool().capacity(); }
  std::string refusal(int64_t size) const {
    const Status may = scheduler_->may_resize(units(size));
    return may ? "" : may.error().message;
  }
  static Jobs leaving(const std::vector<Action>& actions) {
    Jobs jobs;
    for (const EvictImage& evict : of<EvictImage>(actions)) jobs.push_back(evict.job.value());
    return jobs;
  }
  static std::vector<Bytes> sizes(const std::vector<Action>& actions) {
    std::vector<Bytes> all;
    for (const ResizePool& pool : of<ResizePool>(actions)) all.push_back(pool.capacity);
    return all;
  }
};

using Sizes = std::vector<Bytes>;

TEST_F(CapacityTest, TheExecutorHearsOfItWhenNobodyHasBytesAbove) {
  make(100, 4);
  idle(1, 20);
  idle(2, 50);
  const auto asked = resize(60);
  EXPECT_EQ(sizes(asked), Sizes{}) << "an image lies there";
  EXPECT_EQ(leaving(asked), Jobs{2});
  EXPECT_EQ(scheduler_->snapshot().wanted_capacity, units(60));
  EXPECT_EQ(scheduler_->snapshot().capacity, units(100));
  EXPECT_EQ(sizes(left(2)), Sizes{units(60)});
  EXPECT_EQ(sizes(resize(90)), Sizes{units(90)}) << "it grows at once";
  EXPECT_EQ(sizes(resize(90)), Sizes{}) << "nothing changes";
}

TEST_F(CapacityTest, ARegionThatFindsNoRoomBelowMakesTheLongestUnusedImageLeave) {
  make(100, 4);
  idle(1, 20);
  idle(2, 20);
  idle(3, 20);  // images: 0 to 60, regions: 70 to 100
  EXPECT_EQ(leaving(resize(45)), Jobs{3}) << "it lies above";
  const auto gone = left(3);
  EXPECT_EQ(leaving(gone), Jobs{1}) << "two regions of 10, and 5 between 40 and 45";
  EXPECT_EQ(sizes(gone), Sizes{});
  EXPECT_EQ(sizes(left(1)), Sizes{units(45)});
  EXPECT_EQ(job(2).state, JobState::resident) << "nobody leaves in vain";
}

TEST_F(CapacityTest, APinnedImageAboveMovesIntoRoomThatOthersMake) {
  make(100, 4);
  idle(1, 40);
  idle(2, 30);
  send(ResidencyWanted{JobId(2), Residency::pin});
  const auto asked = resize(60);
  EXPECT_EQ(leaving(asked), Jobs{1}) << "below the end, in the pinned one's way";
  const auto moves = of<MoveImage>(left(1));
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].offset, units(10)) << "behind the region, which moved first";
  EXPECT_EQ(sizes(place(2)), Sizes{units(60)});
}

TEST_F(CapacityTest, APinnedImageThatIsBeingSavedGoesAwayWithItsCopyAndComesBackBelow) {
  for (const bool whole : {true, false}) {
    make(100, 4);
    idle(1, 20);
    idle(2, 20);
    send(ResidencyWanted{JobId(1), Residency::unload});
    left(1);
    now_ = now_ + seconds(1);
    ASSERT_EQ(of<SaveImage>(send(TimerFired{})).size(), 1u);
    send(ResidencyWanted{JobId(2), Residency::pin});
    EXPECT_EQ(leaving(resize(35)), Jobs{2}) << "what is copied does not move";
    EXPECT_EQ(sizes(send(ImageSaved{JobId(2), whole})), Sizes{}) << whole;
    const auto smaller = left(2);
    EXPECT_EQ(sizes(smaller), Sizes{units(35)});
    ASSERT_EQ(of<AdmitJob>(smaller).size(), 1u) << reason_text(job(2).reason);
    EXPECT_EQ(of<AdmitJob>(smaller)[0].job, JobId(2));
    now_ = TimePoint();
  }
}

TEST_F(CapacityTest, APinnedImageThatCannotMoveLeavesLastAndComesBack) {
  make(100, 4);
  idle(1, 20);
  idle(2, 20);
  idle(3, 20, 4);
  for (const uint64_t id : {1, 2}) send(ResidencyWanted{JobId(id), Residency::pin});
  // Two lanes of 10 find no room beside two images of 20, and one does.
  EXPECT_EQ(refusal(51), "");
  EXPECT_EQ(leaving(resize(51)), Jobs{3}) << "it lies above";
  const auto gone = left(3);
  EXPECT_EQ(leaving(gone), Jobs{1}) << "everybody else is pinned too";
  const auto smaller = left(1);
  EXPECT_EQ(sizes(smaller), Sizes{units(51)});
  ASSERT_EQ(of<AdmitJob>(smaller).size(), 1u) << reason_text(job(1).reason);
  EXPECT_EQ(of<AdmitJob>(smaller)[0].job, JobId(1));
  EXPECT_EQ(of<AdmitJob>(smaller)[0].lane, job(2).lane);
}

TEST_F(CapacityTest, WithNowhereToGoAllMustFindAPlaceBelow) {
  store_ = Bytes();
  make(100, 4);
  idle(1, 30);
  idle(2, 31);
  send(JobEnded{JobId(1)});
  EXPECT_THAT(refusal(50), HasSubstr("not all that lies above 3.12 KiB finds a place below"));
  EXPECT_EQ(refusal(71), "");
  resize(71);
  EXPECT_EQ(capacity(), units(71));
}

TEST_F(CapacityTest, AfterACopyThatFailedItIsTriedAgain) {
  make(100, 4);
  idle(1, 20);
  idle(2, 50);
  EXPECT_EQ(leaving(resize(60)), Jobs{2});
  EXPECT_EQ(leaving(send(CopyFailed{JobId(2)})), Jobs{});
  ASSERT_NE(scheduler_->next_wakeup(), TimePoint::never()) << "nothing else may ever happen";
  Jobs again;
  while (again.empty() && scheduler_->next_wakeup() != TimePoint::never()) {
    now_ = scheduler_->next_wakeup();
    again = leaving(send(TimerFired{}));
  }
  EXPECT_EQ(again, Jobs{2});
  EXPECT_EQ(sizes(left(2)), Sizes{units(60)});
}

TEST_F(CapacityTest, ACoreMadeAnewGoesOnShrinkingBehindItsReport) {
  SchedulerConfig config;
  config.capacity = units(100);
  config.wanted_capacity = units(60);
  config.store = store_;
  config.check_every = 1;
  config.max_lanes = 4;
  scheduler_ = std::make_unique<Scheduler>(config, std::make_unique<policies::Fifo>());
  auto image = in_pool(away_at(1, 30, {}), 50);
  const auto told = restore({image}, /*with_lane=*/true);
  EXPECT_EQ(of<RefuseJob>(told).size(), 0u) << "its image lies above, and is its image";
  EXPECT_EQ(of<MoveImage>(told).size(), 1u);
  EXPECT_EQ(sizes(place(1)), Sizes{units(60)});
}

TEST_F(CapacityTest, ARegionBetweenTwoFreePiecesSinksForTheImageThatMustGoBelow) {
  store_ = {};
  make(100, 4);
  WorkerReport report;
  report.jobs = {in_pool(away_at(1, 40, {}), 55)};
  report.regions.push_back({RegionId(1), LaneId(1), units(20), units(10)});
  send(WorkerReported{report});
  // Of 60, 20 and 25 are free beside the region, and the image has 40.
  const auto told = send(CapacityChanged{units(60)});
  const auto moved = of<ResizeRegion>(told);
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved.front().offset, Bytes());
  ASSERT_EQ(of<MoveImage>(told).size(), 1u);
  EXPECT_EQ(of<MoveImage>(told).front().offset, units(10));
  EXPECT_EQ(sizes(place(1)), Sizes{units(60)});
}

TEST_F(CapacityTest, AnImageWithoutAHomeGoesBelowAsSoonAsOthersHaveLeft) {
  store_ = units(60);
  make(160, 4);
  // The first two have homes, the third, above them, has none.
  idle(1, 30, 5);
  idle(2, 30, 5);
  idle(3, 50, 5);
  ASSERT_EQ(refusal(100), "");
  EXPECT_EQ(leaving(send(CapacityChanged{units(100)})), Jobs{1});
  EXPECT_EQ(leaving(left(1)), Jobs{2});
  EXPECT_EQ(of<MoveImage>(left(2)).size(), 1u);
  EXPECT_EQ(sizes(place(3)), Sizes{units(100)});
}

TEST_F(CapacityTest, WhatSomeJobCouldNotLiveWithIsRefusedWithTheArithmetic) {
  make(100, 4, /*reserve=*/2);
  idle(1, 40, 20);
  idle(2, 10, 10);
  EXPECT_EQ(refusal(62), "");
  EXPECT_THAT(refusal(61), HasSubstr("could not run job 'job1' (number 1) even alone: it needs "
                                     "2.5 KiB for its image and 1.25 KiB"));
  EXPECT_THAT(refusal(61), HasSubstr("Give at least 3.88 KiB"));
  EXPECT_THAT(refusal(2), HasSubstr("leaves nothing for jobs beside the reserve of 128 B"));
  send(ResidencyWanted{JobId(1), Residency::pin});
  send(ResidencyWanted{JobId(2), Residency::pin});
  EXPECT_THAT(refusal(71), HasSubstr("which are pinned"));
  EXPECT_EQ(refusal(72), "");
}

TEST_F(CapacityTest, ImagesWithoutRoomOutsideCannotBeAskedToLeave) {
  store_ = units(30);
  make(100, 4);
  idle(1, 20);
  idle(2, 20);
  idle(3, 20);
  EXPECT_EQ(refusal(80), "") << "two of 20 stay with a lane of 10, and the third comes back: 30";
  EXPECT_THAT(refusal(79), HasSubstr("would leave no room to change places: images of 2.5 KiB "
                                     "have no place outside of the pool"));
  EXPECT_THAT(refusal(79), HasSubstr("Give at least 5 KiB"));
  EXPECT_THAT(refusal(39), HasSubstr("for which the 1.88 KiB for images outside of the pool have "
                                     "no room"));
  EXPECT_TRUE(may_grow_to(units(100), units(100)).ok());
  EXPECT_THAT(may_grow_to(units(101), units(100)).error().message, HasSubstr("give at most 6.2"));
}

}  // namespace
}  // namespace laneway::lanes
