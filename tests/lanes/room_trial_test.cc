// Shows that a trial that finds no room leaves the pool as it was, so that the next trial can be
// made in it: an image that was placed is gone, a prefix that was given up is there again. And that
// the core's pool is as before when a trial has ended, whatever it found.
#include "lanes/state/room_trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <vector>

#include "base/random.h"
#include "lanes/state/core_state.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

class RoomTrialTest : public ::testing::Test {
 protected:
  static SchedulerConfig small() {
    SchedulerConfig config;
    config.capacity = mib(1);
    config.max_lanes = 2;
    return config;
  }
  RoomTrialTest() {
    Bytes offset;
    EXPECT_EQ(core_.pool.place_image(JobId(1), kib(256), &offset), Room::done);
    EXPECT_EQ(core_.pool.place_image(JobId(2), kib(512), &offset), Room::done);
    core_.pool.keep_prefix(JobId(1), kib(64));
    claimed_ = core_.pool.claimed();
  }
  Job& offered(Bytes ephemeral) {
    JobOffered offer;
    offer.job = JobId(1);
    offer.persistent = kib(256);
    offer.ephemeral = ephemeral;
    return core_.jobs.add(core_.new_job(offer));
  }

  void expect_as_before() {
    EXPECT_EQ(core_.pool.claimed(), claimed_);
    EXPECT_EQ(core_.pool.ranges().taken_count(), 2U);
    EXPECT_EQ(core_.pool.prefix_of(JobId(1)).size, kib(64));
    EXPECT_FALSE(core_.pool.trying());
  }

  CoreState core_{small()};
  Bytes claimed_;
  policies::AdmitDecision anywhere_;
};

TEST_F(RoomTrialTest, FindsRoomForAnImageThatGrowsFromItsPrefixAndARegion) {
  const Job& job = offered(kib(128));
  EXPECT_TRUE(RoomTrial(core_).fits({.job = job, .where = &anywhere_}));
  expect_as_before();
}

TEST_F(RoomTrialTest, ThatFindsNoRoomForTheRegionIsAsBefore) {
  const Job& job = offered(kib(400));
  const Bytes offset = core_.pool.prefix_of(JobId(1)).offset;
  {
    RoomTrial trial(core_);
    for (int times = 0; times < 2; ++times) {
      EXPECT_FALSE(trial.fits({.job = job, .where = &anywhere_}));
      EXPECT_EQ(trial.pool().claimed(), claimed_);
      EXPECT_EQ(trial.pool().ranges().taken_count(), 2U);
      EXPECT_EQ(trial.pool().prefix_of(JobId(1)).size, kib(64));
      EXPECT_EQ(trial.pool().prefix_of(JobId(1)).offset, offset);
    }
    trial.leave({JobId(2)});
    EXPECT_TRUE(trial.fits({.job = job, .where = &anywhere_})) << "with the other image gone";
  }
  expect_as_before();
}

TEST_F(RoomTrialTest, OneInsideAnotherEndsAsTheOtherWas) {
  const Job& job = offered(kib(400));
  {
    RoomTrial trial(core_);
    trial.give_up({JobId(1)});
    {
      RoomTrial nested = trial.nested();
      nested.leave({JobId(2)});
      EXPECT_TRUE(nested.fits({.job = job, .where = &anywhere_}));
    }
    EXPECT_EQ(trial.pool().claimed(), claimed_ - kib(64));
    EXPECT_FALSE(trial.fits({.job = job, .where = &anywhere_}));
  }
  expect_as_before();
}

TEST_F(RoomTrialTest, WhatIsKeptStays) {
  RoomTrial trial(core_);
  trial.give_up({JobId(1)});
  trial.keep();
  EXPECT_FALSE(core_.pool.trying());
  EXPECT_EQ(core_.pool.claimed(), claimed_ - kib(64));
}

TEST_F(RoomTrialTest, ThatFindsNoPlaceForTheImageIsAsBefore) {
  core_.pool.drop_prefix(JobId(1));
  Bytes offset;
  for (const JobId other : {JobId(3), JobId(4)}) {
    ASSERT_EQ(core_.pool.place_image(other, kib(250), &offset), Room::done);
  }
  const Job& job = offered(kib(4));
  const Bytes before = core_.pool.claimed();
  RoomTrial trial(core_);
  EXPECT_FALSE(trial.fits({.job = job, .where = &anywhere_}));
  EXPECT_EQ(trial.pool().claimed(), before);
}

// Whether the image's move makes room, tried out.
bool move_helps(CoreState& core, JobId image, const Wish& wish) {
  using To = PoolMap::MoveTo;
  return std::ranges::any_of(std::array{To::lowest, To::highest}, [&](To to) {
    RoomTrial trial(core);
    if (!trial.move(image, to)) return false;
    if (trial.fits(wish)) return true;
    trial.slide(wish, /*idle_ones_only=*/false);
    return trial.fits(wish);
  });
}

TEST(MaySlideFor, RulesOutNobodyWhoseMoveWouldHelp) {
  Random random(testing::seed_from_environment(1709));
  int ruled_out = 0;
  int helped = 0;
  for (int round = 0; round < 4000; ++round) {
    SchedulerConfig config;
    config.capacity = Bytes(config.alignment * random.between(300, 600));
    config.max_lanes = 8;
    CoreState core(config);
    const auto units = [&](int64_t most) {
      return Bytes(config.alignment * random.between(1, most));
    };
    std::map<JobId, Bytes> places;
    for (uint64_t id = 1; id <= 90; ++id) {
      (void)core.pool.place_image(JobId(id), units(12), &places[JobId(id)]);
    }
    for (const PoolMap::ImageSize& image : std::vector(core.pool.image_sizes())) {
      if (random.chance(0.4)) core.pool.drop_image(image.job);
    }
    const int64_t end = config.capacity.count() / config.alignment;
    for (Lane& lane : core.lanes) {
      Region region;
      region.id = RegionId(lane.id.value());
      region.size = units(60);
      region.offset = Bytes(config.alignment * random.between(end / 3, end));
      if (core.pool.claim_region(region)) lane.region = region;
    }
    JobOffered offer;
    offer.job = JobId(100);
    offer.persistent = units(120);
    offer.ephemeral = units(9);
    const Job& job = core.jobs.add(core.new_job(offer));
    const policies::AdmitDecision anywhere;
    const Wish wish{.job = job, .where = &anywhere};
    if (RoomTrial(core).fits(wish)) continue;
    for (const PoolMap::ImageSize& image : std::vector(core.pool.image_sizes())) {
      const int64_t at = places[image.job].count();
      const memory::FreeList::Range range{at, core.pool.ranges().size_of(Bytes(at)).count()};
      const bool helps = move_helps(core, image.job, wish);
      helped += helps;
      if (may_slide_for(core, wish, std::span(&range, 1))) continue;
      ASSERT_FALSE(helps) << "round " << round << ", image " << image.job.value();
      ++ruled_out;
    }
  }
  EXPECT_GT(ruled_out, 20);
  EXPECT_GT(helped, 100);
}

}  // namespace
}  // namespace laneway::lanes
