// Shows that a trial that finds no room leaves the pool's copy as it was, so that the next trial
// can be made on it: an image that was placed is gone, a prefix that was given up is there again.
#include "lanes/room_trial.h"

#include <gtest/gtest.h>

#include "lanes/core_state.h"

namespace laneway::lanes {
namespace {

class RoomTrialTest : public testing::Test {
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
  }
  Job& offered(Bytes ephemeral) {
    JobOffered offer;
    offer.job = JobId(1);
    offer.persistent = kib(256);
    offer.ephemeral = ephemeral;
    return core_.jobs.add(core_.new_job(offer));
  }

  CoreState core_{small()};
  policies::AdmitDecision anywhere_;
};

TEST_F(RoomTrialTest, FindsRoomForAnImageThatGrowsFromItsPrefixAndARegion) {
  const Job& job = offered(kib(128));
  EXPECT_TRUE(RoomTrial(core_).fits({.job = job, .where = &anywhere_}));
}

TEST_F(RoomTrialTest, ThatFindsNoRoomForTheRegionIsAsBefore) {
  const Job& job = offered(kib(400));
  RoomTrial trial(core_);
  for (int times = 0; times < 2; ++times) {
    EXPECT_FALSE(trial.fits({.job = job, .where = &anywhere_}));
    EXPECT_EQ(trial.pool().claimed(), core_.pool.claimed());
    EXPECT_EQ(trial.pool().ranges().taken_count(), core_.pool.ranges().taken_count());
    EXPECT_EQ(trial.pool().prefix_of(JobId(1)).size, kib(64));
    EXPECT_EQ(trial.pool().prefix_of(JobId(1)).offset, core_.pool.prefix_of(JobId(1)).offset);
  }
  trial.leave({JobId(2)});
  EXPECT_TRUE(trial.fits({.job = job, .where = &anywhere_})) << "with the other image gone";
}

TEST_F(RoomTrialTest, ThatFindsNoPlaceForTheImageIsAsBefore) {
  core_.pool.drop_prefix(JobId(1));
  Bytes offset;
  for (const JobId other : {JobId(3), JobId(4)}) {
    ASSERT_EQ(core_.pool.place_image(other, kib(250), &offset), Room::done);
  }
  const Job& job = offered(kib(4));
  RoomTrial trial(core_);
  EXPECT_FALSE(trial.fits({.job = job, .where = &anywhere_}));
  EXPECT_EQ(trial.pool().claimed(), core_.pool.claimed());
}

}  // namespace
}  // namespace laneway::lanes
