// The checks of the core find each kind of contradiction: a state that is whole passes, and one
// field that is bent stops the process.
#include "lanes/core/core_check.h"

#include <gtest/gtest.h>

#include <memory>

#include "policies/fifo.h"

namespace laneway::lanes {
namespace {

SchedulerConfig small() {
  SchedulerConfig config;
  config.capacity = mib(1);
  config.max_lanes = 2;
  return config;
}

class CoreCheckDeathTest : public testing::Test {
 protected:
  CoreCheckDeathTest() {
    JobOffered offer;
    offer.job = JobId(1);
    offer.persistent = kib(4);
    offer.ephemeral = kib(4);
    Job& job = core_.jobs.add(core_.new_job(offer));
    core_.view.add_waiting(job.view);
  }
  Job& job() { return core_.job_of(JobId(1)); }

  CoreState core_{small()};
  CheckedPolicy policy_{std::make_unique<policies::Fifo>()};
  TurnControl turns_{core_, policy_};
};

TEST_F(CoreCheckDeathTest, PassesAStateThatIsWhole) { check_all(core_, turns_); }

TEST_F(CoreCheckDeathTest, FindsAWaitingJobThatIsInALane) {
  job().view.lane = LaneId(1);
  EXPECT_DEATH(check_all(core_, turns_), "lane against state");
}

TEST_F(CoreCheckDeathTest, FindsInOneJobByItselfThatItWaitsAndIsPlacedOrReady) {
  check_job(core_, job());
  job().view.ready = true;
  EXPECT_DEATH(check_job(core_, job()), "job 1: ready");
  job().view.ready = false;
  job().view.lane = LaneId(1);
  EXPECT_DEATH(check_job(core_, job()), "lane against state");
}

TEST_F(CoreCheckDeathTest, FindsAJobThatIsAwayWithoutACopy) {
  job().move_to(JobState::away);
  EXPECT_DEATH(check_all(core_, turns_), "is away, and its image absent");
}

TEST_F(CoreCheckDeathTest, FindsAJobWhosePlaceOutsideIsSomebodyElses) {
  job().move_to(JobState::away);
  job().image.state = ImageState::away;
  job().image.clean = true;
  job().image.copy = {Tier::store, Bytes()};
  EXPECT_DEATH(check_all(core_, turns_), "its place outside");
}

TEST_F(CoreCheckDeathTest, FindsACopyThatBelongsToNoJob) {
  core_.outside = OutsideMap(kib(64), Bytes(), core_.config.alignment);
  ASSERT_TRUE(core_.outside.claim(JobId(2), kib(4), {Tier::store, Bytes()}));
  EXPECT_DEATH(check_all(core_, turns_), "belongs to no job");
}

TEST_F(CoreCheckDeathTest, FindsAJobThatTheViewDoesNotShow) {
  core_.view.remove_waiting(job().view);
  EXPECT_DEATH(check_all(core_, turns_), "every job exactly once");
}

TEST_F(CoreCheckDeathTest, FindsALaneWhoseRegionIsKeptForAJobThatIsNotInIt) {
  Lane& lane = core_.lane_of(LaneId(1));
  lane.region.id = RegionId(1);
  ASSERT_EQ(core_.pool.open_region(lane.region, kib(4)), Room::done);
  lane.move_to(LaneState::idle);
  core_.view.open_lane(lane.id, lane.region.size);
  check_lane(core_, turns_, lane);
  lane.needs_region = job().view.id;
  EXPECT_DEATH(check_lane(core_, turns_, lane), "whether its region is needed");
  core_.regions_needed = set_of(lane.id);
  EXPECT_DEATH(check_lane(core_, turns_, lane), "who needs its region");
}

TEST_F(CoreCheckDeathTest, FindsBytesThatBelongToNoJob) {
  Bytes offset;
  ASSERT_EQ(core_.pool.place_image(JobId(2), kib(4), &offset), Room::done);
  EXPECT_DEATH(check_all(core_, turns_), "a range of the pool is nobody's");
}

TEST_F(CoreCheckDeathTest, FindsHeldJobsThatAreMiscounted) {
  Job copy = job();  // counts for the table that the job is in
  copy.move_to(JobState::staged);
  copy.move_to(JobState::held);
  EXPECT_DEATH(check_all(core_, turns_), "held jobs are miscounted");
}

TEST_F(CoreCheckDeathTest, FindsALaneThatPoliciesDoNotSee) {
  core_.lanes[0].move_to(LaneState::idle);
  EXPECT_DEATH(check_lane(core_, turns_, core_.lanes[0]), "lane 1: view");
}

}  // namespace
}  // namespace laneway::lanes
