// Jobs that change their lane: a held one to a region that is large enough, lanes that become one
// for who has found no room for long, and jobs that wait for a turn to lanes that have none. Small
// scenes whose arithmetic can be done by hand.
#include <gtest/gtest.h>

#include <memory>

#include "base/job_changes.h"
#include "policies/registry.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

// Of three jobs the third goes first, and the second last.
class ThirdFirst final : public policies::Fifo {
 public:
  policies::TurnRank turn_rank(TimePoint /*now*/, const policies::View& /*view*/,
                               const policies::JobView& job) const override {
    return {.value = static_cast<int64_t>(job.id.value() * 2 % 5)};
  }
};

class LaneChangesTest : public SchedulerTest {
 protected:
  TurnId begin(uint64_t id, int64_t persistent, int64_t ephemeral) {
    return of<GrantTurn>(start(id, persistent, ephemeral)).at(0).turn.id;
  }
  std::vector<Action> outgrow(TurnId turn, int64_t need) {
    return end_turn(turn, TurnEnd::out_of_lane, /*more_ready=*/true, units(need), 0);
  }
  // What the core does when it wanted to be woken.
  std::vector<Action> wake() {
    now_ = scheduler_->next_wakeup();
    return send(TimerFired{});
  }
  void idle(uint64_t id, int64_t persistent, int64_t ephemeral) {
    offer(id, persistent, ephemeral);
    place(id);
  }
};

TEST_F(LaneChangesTest, AHeldJobGoesWhereARegionIsLargeEnough) {
  make(100, 4);
  const TurnId first = begin(1, 35, 25);
  const TurnId second = begin(2, 35, 5);
  // Two regions of 25 do not fit beside two images of 35.
  const auto changed = outgrow(second, 25);
  ASSERT_EQ(of<ChangeLane>(changed).size(), 1u);
  EXPECT_EQ(of<ChangeLane>(changed)[0].job, JobId(2));
  EXPECT_EQ(of<ChangeLane>(changed)[0].lane, LaneId(1));
  EXPECT_EQ(of<CloseRegion>(changed).size(), 1u) << "its own lane is gone";
  EXPECT_EQ(job(2).state, JobState::resident);
  EXPECT_EQ(job(2).lane, LaneId(1));
  ASSERT_EQ(of<RecallTurn>(changed).size(), 1u) << "a rival came to a turn without a bound";
  const auto next = end_turn(first, TurnEnd::idle, /*more_ready=*/false);
  EXPECT_EQ(of<GrantTurn>(next).at(0).turn.job, JobId(2));
}

TEST_F(LaneChangesTest, LanesWithNothingToRunBecomeOneForWhoWaited) {
  make(100, 4);
  idle(1, 5, 30);
  idle(2, 5, 30);
  // 30 are free, and 40 are wanted where lanes of 30 can be shared.
  EXPECT_TRUE(of<ChangeLane>(offer(3, 40, 10)).empty()) << "somebody may end soon";
  const TimePoint since = now_;
  const auto merged = wake();
  EXPECT_EQ(now_ - since, SchedulerConfig().merge_after + microseconds(20));
  ASSERT_EQ(of<ChangeLane>(merged).size(), 1u);
  EXPECT_EQ(job(1).lane, job(2).lane);
  EXPECT_EQ(of<AdmitJob>(merged).size(), 1u);
}

TEST_F(LaneChangesTest, LanesThatComputeFasterBesideEachOtherStayForAWhileMore) {
  keep_lanes_ = 2;
  make(100, 4);
  idle(1, 5, 30);
  idle(2, 5, 30);
  offer(3, 40, 10);
  EXPECT_TRUE(of<ChangeLane>(wake()).empty());
  EXPECT_EQ(of<AdmitJob>(wake()).size(), 1u);
  EXPECT_GE(now_, TimePoint() + SchedulerConfig().merge_all_after);
}

TEST_F(LaneChangesTest, ImagesLeaveBeforeLanesBecomeOne) {
  store_ = units(100);
  make(100, 4);
  idle(1, 5, 30);
  idle(2, 5, 30);
  EXPECT_EQ(of<EvictImage>(offer(3, 40, 10)).size(), 1u);
  EXPECT_TRUE(of<ChangeLane>(send(ImageLeft{JobId(1)})).empty());
  EXPECT_EQ(job(3).state, JobState::staged);
}

TEST_F(LaneChangesTest, NobodyChangesInVain) {
  make(100, 4);
  idle(1, 5, 30);
  idle(2, 5, 30);
  offer(3, 70, 10);
  const auto later = wake();
  EXPECT_TRUE(of<ChangeLane>(later).empty()) << "with one lane it would be 60";
  EXPECT_TRUE(of<AdmitJob>(later).empty());
}

TEST_F(LaneChangesTest, OfSeveralLanesTheSmallestThatSufficesGoes) {
  make(100, 4);
  idle(1, 2, 40);
  idle(2, 2, 20);
  idle(3, 2, 10);
  offer(4, 30, 10);  // 24 are free
  const auto merged = wake();
  ASSERT_EQ(of<ChangeLane>(merged).size(), 1u);
  EXPECT_EQ(of<ChangeLane>(merged)[0].job, JobId(3));
  EXPECT_EQ(of<ChangeLane>(merged)[0].lane, LaneId(1)) << "the largest region takes them";
}

TEST_F(LaneChangesTest, LanesWithWorkBecomeOneForWhoWaitedLongEnough) {
  make(100, 4);
  // Whether they have work is asked at once; they have.
  const TurnId asked_first = begin(1, 5, 30);
  const TurnId asked_second = begin(2, 5, 30);
  EXPECT_EQ(of<RecallTurn>(offer(3, 40, 10)).size(), 2u);
  const auto goes_on = [this](TurnId turn) {
    return of<GrantTurn>(end_turn(turn, TurnEnd::budget, /*more_ready=*/true)).at(0).turn.id;
  };
  const TurnId first = goes_on(asked_first);
  const TurnId second = goes_on(asked_second);
  const auto asked = wake();
  ASSERT_EQ(of<RecallTurn>(asked).size(), 1u);
  const TurnId recalled = of<RecallTurn>(asked)[0].turn;
  ASSERT_EQ(recalled, second);
  const auto merged = end_turn(recalled, TurnEnd::idle, /*more_ready=*/true);
  EXPECT_EQ(of<ChangeLane>(merged).size(), 1u);
  EXPECT_EQ(of<AdmitJob>(merged).size(), 1u);
  EXPECT_TRUE(of<GrantTurn>(merged).empty()) << "the other one's turn is open";
  EXPECT_EQ(of<GrantTurn>(end_turn(first, TurnEnd::idle, false)).at(0).turn.job, JobId(2));
}

TEST_F(LaneChangesTest, AJobThatWaitsForATurnGoesToALaneWithNothingToRun) {
  make(100, 2);
  idle(1, 5, 10);
  const TurnId second = begin(2, 5, 10);
  idle(3, 5, 10);  // shares with one of them, because there are two lanes
  idle(4, 5, 10);
  ASSERT_EQ(job(3).lane, LaneId(1));
  ASSERT_EQ(job(4).lane, LaneId(2));
  const auto came = ready(4);
  ASSERT_EQ(of<ChangeLane>(came).size(), 1u);
  EXPECT_EQ(of<ChangeLane>(came)[0].lane, LaneId(1));
  EXPECT_EQ(of<GrantTurn>(came).at(0).turn.job, JobId(4));
  EXPECT_TRUE(of<RecallTurn>(came).empty()) << "the other lane's turn goes on";
  EXPECT_EQ(job(2).state, JobState::running);
  // The other way round: a lane that has nothing to run any more takes who waits.
  EXPECT_TRUE(of<ChangeLane>(ready(1)).empty());
  const auto over = end_turn(second, TurnEnd::idle, /*more_ready=*/false);
  ASSERT_EQ(of<ChangeLane>(over).size(), 1u);
  EXPECT_EQ(of<ChangeLane>(over)[0].job, JobId(1));
  EXPECT_EQ(of<GrantTurn>(over).at(0).turn.lane, LaneId(2));
}

TEST_F(LaneChangesTest, ATurnThatIsOpenForLongIsAskedWhetherItHasWork) {
  make(100, 2);
  const TurnId first = begin(1, 5, 10);
  begin(2, 5, 10);
  idle(3, 5, 10);
  ASSERT_EQ(job(3).lane, LaneId(1));
  EXPECT_EQ(of<RecallTurn>(ready(3)).at(0).turn, first);
  const auto next = end_turn(first, TurnEnd::idle, /*more_ready=*/true);
  ASSERT_EQ(of<GrantTurn>(next).at(0).turn.job, JobId(1)) << "by fifo it goes on";
  std::vector<Action> asked;
  const TimePoint since = now_;
  while (of<RecallTurn>(asked).empty() || of<RecallTurn>(asked)[0].lane != LaneId(2)) {
    ASSERT_LT(now_, since + seconds(3));
    asked = wake();
  }
  const auto gone = end_turn(of<RecallTurn>(asked)[0].turn, TurnEnd::idle, /*more_ready=*/false);
  ASSERT_EQ(of<ChangeLane>(gone).size(), 1u);
  EXPECT_EQ(of<ChangeLane>(gone)[0].job, JobId(3));
  EXPECT_EQ(of<GrantTurn>(gone).at(0).turn.job, JobId(3));
}

TEST_F(LaneChangesTest, ItGoesNowhereWhereItDoesNotFit) {
  make(60, 2);
  idle(1, 5, 10);
  begin(2, 5, 30);
  idle(3, 5, 20);
  ASSERT_EQ(job(3).lane, LaneId(2));
  EXPECT_TRUE(of<ChangeLane>(ready(3)).empty());
}

TEST_F(LaneChangesTest, ALaneGrowsForOneThatComes) {
  make(100, 2);
  idle(1, 5, 10);
  begin(2, 5, 30);
  idle(3, 5, 20);
  ASSERT_EQ(job(3).lane, LaneId(2));
  const auto actions = ready(3);
  EXPECT_EQ(of<ChangeLane>(actions).at(0).lane, LaneId(1));
  EXPECT_EQ(of<ResizeRegion>(actions).at(0).size, units(20));
  EXPECT_EQ(of<GrantTurn>(actions).at(0).turn.job, JobId(3));
}

TEST_F(LaneChangesTest, OneThatWaitsTakesTheLaneOfTheLastByThePolicy) {
  make(100, 3, 0, policies::make_policy("priority:age=off").value());
  begin(1, 5, 10);
  begin(2, 5, 10);
  const TurnId last = begin(3, 5, 10);
  idle(4, 5, 10);
  ASSERT_EQ(job(4).lane, LaneId(1));
  EXPECT_TRUE(of<ChangeLane>(ready(4)).empty()) << "it goes before nobody";
  const auto actions = send(JobChanged{JobId(4), parse_job_changes("priority=1").value()});
  ASSERT_EQ(of<ChangeLane>(actions).size(), 1u);
  EXPECT_EQ(of<ChangeLane>(actions)[0].lane, LaneId(3)) << "of equal ones the latest waits";
  bool ends = false;
  for (const RecallTurn& recall : of<RecallTurn>(actions)) ends = ends || recall.turn == last;
  EXPECT_TRUE(ends);
  const auto next = end_turn(last, TurnEnd::budget, /*more_ready=*/true);
  EXPECT_EQ(of<GrantTurn>(next).at(0).turn.job, JobId(4));
}

TEST_F(LaneChangesTest, ALaneThatGetsFreeTakesTheFirstOfAllThatWait) {
  make(100, 2);
  begin(1, 5, 10);
  TurnId second = begin(2, 5, 10);
  idle(3, 5, 10);
  idle(4, 5, 10);
  ASSERT_EQ(job(3).lane, LaneId(1));
  ASSERT_EQ(job(4).lane, LaneId(2));
  ready(3);
  ASSERT_EQ(of<RecallTurn>(ready(4)).at(0).turn, second);
  const auto next = end_turn(second, TurnEnd::idle, /*more_ready=*/false);
  EXPECT_EQ(of<ChangeLane>(next).at(0).job, JobId(3)) << "it came before 4, which was there";
  EXPECT_EQ(of<GrantTurn>(next).at(0).turn.job, JobId(3));
}

TEST_F(LaneChangesTest, NewLanesOpenWhenMemoryIsFreeAndNobodyElseWantsIt) {
  make(100, 4);
  begin(1, 10, 30);
  idle(2, 45, 5);
  start(3, 10, 10);  // beside two images there is no room for its own region
  ASSERT_EQ(job(3).lane, job(1).lane);
  const auto freed = send(JobEnded{JobId(2)});
  ASSERT_EQ(of<OpenRegion>(freed).size(), 1u);
  EXPECT_EQ(of<OpenRegion>(freed)[0].size, units(10));
  ASSERT_EQ(of<GrantTurn>(freed).size(), 1u);
  EXPECT_EQ(of<GrantTurn>(freed)[0].turn.job, JobId(3));
  EXPECT_NE(job(3).lane, job(1).lane);
}

TEST_F(LaneChangesTest, WhoSharesNoLaneKeepsHisOwn) {
  auto policy = policies::make_policy("fifo:share=no");
  ASSERT_TRUE(policy) << policy.error().message;
  make(100, 4, 0, std::move(policy).value());
  idle(1, 5, 30);
  idle(2, 5, 30);
  offer(3, 40, 10);
  EXPECT_EQ(scheduler_->next_wakeup(), now_ + seconds(600)) << "when it is overdue, and not before";
  EXPECT_TRUE(of<ChangeLane>(send(JobChanged{JobId(1), {}})).empty());
}

TEST_F(LaneChangesTest, AnotherPolicysOrderHoldsOverAllLanesAtOnce) {
  make(100, 2);
  begin(1, 10, 20);
  begin(2, 10, 20);
  start(3, 10, 20);
  ASSERT_EQ(job(3).lane, LaneId(1)) << "behind the first one";
  scheduler_->set_policy(std::make_unique<ThirdFirst>());
  const auto changed = of<ChangeLane>(send(TimerFired{}));
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].job, JobId(3));
  EXPECT_EQ(changed[0].lane, LaneId(2)) << "whose job is the last now";
}

}  // namespace
}  // namespace laneway::lanes
