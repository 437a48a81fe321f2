// Shows that the core says of every job with work that does not run why, since when and behind
// whom, with the numbers of now; and of every other job nothing.
#include "lanes/standing.h"

#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class StandingTest : public SchedulerTest {
 protected:
  void expect_nothing(uint64_t id, const char* why) {
    EXPECT_EQ(job(id).reason.code, ReasonCode::none) << why;
    EXPECT_FALSE(job(id).waiting_since) << why;
  }
};

TEST_F(StandingTest, InASharedLaneAJobWaitsBehindTheOneThatRuns) {
  make(100, 1);
  start(1, 10, 10);
  offer(2, 10, 10);
  expect_nothing(2, "its image is on its way, and it has nothing to run");
  place(2);
  expect_nothing(2, "it has nothing to run");
  ready(2);
  const TimePoint since = now_;
  send(TimerFired{});
  EXPECT_EQ(job(2).reason.code, ReasonCode::waits_turn);
  EXPECT_EQ(job(2).reason.lane, LaneId(1));
  EXPECT_EQ(job(2).reason.behind, JobId(1));
  EXPECT_EQ(job(2).waiting_since, since);
  expect_nothing(1, "it runs");
  // Its turn ends, and with more work queued it waits from then on.
  const TurnId first =
      scheduler_->snapshot().lanes.at(0).running == JobId(1) ? TurnId(1) : TurnId();
  end_turn(first, TurnEnd::idle, /*more_ready=*/false);
  expect_nothing(1, "it has nothing to run");
  EXPECT_EQ(job(2).state, JobState::running);
  expect_nothing(2, "it runs");
}

TEST_F(StandingTest, AJobWhoseImageIsOnItsWayWaitsForTheCopyFromItsFirstWorkOn) {
  make(100, 1);
  offer(1, 10, 10);
  ready(1);
  const TimePoint since = now_;
  EXPECT_EQ(job(1).reason.code, ReasonCode::copy_under_way);
  EXPECT_EQ(job(1).waiting_since, since);
  place(1);
  expect_nothing(1, "it runs");
}

TEST_F(StandingTest, AJobWithoutMemoryWaitsSinceItsOffer) {
  make(100, 2);
  start(1, 60, 30);
  offer(2, 60, 30);
  const TimePoint since = now_;
  offer(3, 5, 5);
  ready(2);
  EXPECT_EQ(job(2).reason.code, ReasonCode::pool_full);
  EXPECT_EQ(job(2).reason.position, 1u);
  EXPECT_EQ(job(2).waiting_since, since);
  send(WorkerLost{});
  EXPECT_EQ(job(2).reason.code, ReasonCode::worker_starting);
  EXPECT_EQ(job(1).reason.code, ReasonCode::worker_starting) << "what ran is queued again";
}

TEST_F(StandingTest, AConflictOfNumericSettingsIsToldOfTheJobThatIsKeptBack) {
  make(100, 2);
  start(1, 10, 10, /*context_key=*/1);
  start(2, 10, 10, /*context_key=*/2);
  EXPECT_EQ(job(2).reason.code, ReasonCode::context_conflict);
  EXPECT_TRUE(job(2).waiting_since);
}

TEST_F(StandingTest, TheNumbersAreThoseOfNow) {
  make(100, 2);
  start(1, 10, 20);
  start(2, 10, 50);
  const TurnId first = TurnId(1);
  end_turn(first, TurnEnd::out_of_lane, false, units(40));
  ASSERT_EQ(job(1).state, JobState::held);
  const Bytes before = job(1).reason.claimed;
  EXPECT_EQ(before, scheduler_->pool().claimed());
  offer(3, 1, 1);  // waits, and changes nothing
  EXPECT_EQ(job(1).reason.claimed, scheduler_->pool().claimed());
  EXPECT_EQ(job(1).reason.code, ReasonCode::region_too_small);
  EXPECT_TRUE(job(1).waiting_since);
}

}  // namespace
}  // namespace laneway::lanes
