// Waits that would have no end: jobs that outgrow their lanes, jobs that wait for each other, free
// bytes in pieces. Small scenes whose arithmetic can be done by hand.
#include <gtest/gtest.h>

#include <array>

#include "policies/registry.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class WaitsTest : public SchedulerTest {
 protected:
  TurnId begin(uint64_t id, int64_t persistent, int64_t ephemeral) {
    return of<GrantTurn>(start(id, persistent, ephemeral)).at(0).turn.id;
  }
  std::vector<Action> outgrow(TurnId turn, int64_t need) {
    return end_turn(turn, TurnEnd::out_of_lane, /*more_ready=*/true, units(need), 0);
  }
};

TEST_F(WaitsTest, AGraphThatFindsNoRoomYetHoldsNobodyUp) {
  make(100, 4);
  offer(1, 10, 20);
  place(1);
  begin(2, 30, 30);
  send(NeedChanged{JobId(1), units(60)});
  EXPECT_EQ(job(1).state, JobState::resident) << "it has a smaller graph too";
  EXPECT_EQ(of<AdmitJob>(offer(3, 1, 1)).size(), 1u);
  const auto granted = of<GrantTurn>(ready(1));
  ASSERT_EQ(granted.size(), 1u);
  EXPECT_EQ(granted[0].turn.envelope.ceiling, units(20));
  outgrow(granted[0].turn.id, 60);
  EXPECT_EQ(job(1).state, JobState::held) << "now it is the large one's turn";
}

TEST_F(WaitsTest, ALaneThatWantsMoreGrowsAsSoonAsThereIsRoom) {
  make(100, 4);
  offer(1, 10, 20);
  place(1);
  begin(2, 30, 30);
  send(NeedChanged{JobId(1), units(60)});
  send(JobEnded{JobId(2)});
  const auto freed = end_turn(TurnId(1), TurnEnd::idle, false);
  ASSERT_EQ(of<ResizeRegion>(freed).size(), 1u);
  EXPECT_EQ(of<ResizeRegion>(freed)[0].size, units(60));
}

// A lane of its own has no room for it anyhow, and none of the lanes that are there can grow where
// it lies.
TEST_F(WaitsTest, RegionsSlideForOneThatCanOnlyShareALane) {
  make(100, 8);
  const auto idle = [this](uint64_t id, int64_t persistent, int64_t ephemeral) {
    offer(id, persistent, ephemeral);
    place(id);
  };
  idle(1, 1, 8);
  idle(2, 75, 2);
  idle(3, 12, 2);  // its image at 76 to 88
  send(JobEnded{JobId(2)});
  idle(4, 10, 30);  // its region at 46 to 76, where images are on both sides of it soon
  idle(5, 10, 4);   // its region at 42 to 46
  send(JobEnded{JobId(1)});
  ASSERT_EQ(scheduler_->pool().claimed(), units(68));
  const auto offered = offer(6, 18, 37);
  ASSERT_EQ(of<AdmitJob>(offered).size(), 1u) << reason_text(job(6).reason);
  EXPECT_EQ(of<AdmitJob>(offered)[0].lane, job(4).lane);
  EXPECT_EQ(of<ResizeRegion>(offered).back().size, units(37));
}

TEST_F(WaitsTest, WhereAllLanesAreTakenAndSharedItIsMemoryThatIsMissing) {
  make(100, 1);
  start(1, 80, 10);
  offer(2, 15, 5);
  EXPECT_EQ(job(2).reason.code, ReasonCode::pool_full) << "there are 10";
}

TEST_F(WaitsTest, OfTwoThatWaitForEachOtherTheLaterOneLosesAnIterationAndNobodyEnds) {
  make(100, 4);
  const TurnId first = begin(1, 40, 5);
  const TurnId second = begin(2, 40, 5);
  outgrow(first, 25);
  ASSERT_EQ(job(1).state, JobState::held);
  const auto stuck = outgrow(second, 25);
  const auto refused = of<RefuseWork>(stuck);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].job, JobId(2));
  EXPECT_EQ(refused[0].reason.code, ReasonCode::no_room_to_grow);
  EXPECT_EQ(refused[0].reason.region, units(25));
  EXPECT_EQ(of<GrantTurn>(stuck).at(0).turn.job, JobId(2)) << "it goes on with what comes behind";
  EXPECT_EQ(job(1).state, JobState::held) << "the other one waits for its end";
  const TurnId again = of<GrantTurn>(stuck).at(0).turn.id;
  send(JobEnded{JobId(2)});
  EXPECT_EQ(of<GrantTurn>(end_turn(again, TurnEnd::idle, false)).at(0).turn.job, JobId(1));
}

// Images of 25 each, and 40 for each iteration: there is room for two of them, and not for three.
TEST_F(WaitsTest, WhereTheEndOfOneThatWasRefusedHelpsTheOthersNoSecondOneIs) {
  make(100, 4);
  const TurnId first = begin(1, 25, 5);
  const TurnId second = begin(2, 25, 5);
  const TurnId third = begin(3, 25, 5);
  outgrow(first, 40);
  outgrow(second, 40);
  const auto stuck = outgrow(third, 40);
  ASSERT_EQ(of<RefuseWork>(stuck).size(), 1u);
  EXPECT_EQ(of<RefuseWork>(stuck)[0].job, JobId(3));
  const TurnId again = of<GrantTurn>(stuck).at(0).turn.id;
  EXPECT_TRUE(of<RefuseWork>(end_turn(again, TurnEnd::idle, false)).empty());
  EXPECT_EQ(job(1).state, JobState::held);
  EXPECT_EQ(job(2).state, JobState::held);
  EXPECT_EQ(of<GrantTurn>(send(JobEnded{JobId(3)})).at(0).turn.job, JobId(1));
}

// Images of 30, 35 and 10: the third one's end leaves 35, and both others want 50.
TEST_F(WaitsTest, WhereTheEndOfThoseAtRestHelpsNobodyOneIsRefused) {
  make(100, 4);
  offer(3, 10, 5);
  place(3);
  const TurnId first = begin(1, 30, 5);
  const TurnId second = begin(2, 35, 5);
  outgrow(first, 50);
  const auto stuck = outgrow(second, 50);
  ASSERT_EQ(of<RefuseWork>(stuck).size(), 1u);
  EXPECT_EQ(of<RefuseWork>(stuck)[0].job, JobId(2));
}

TEST_F(WaitsTest, WithRoomOutsideOneOfThemLeavesAndNothingIsRefused) {
  store_ = units(100);
  make(100, 4);
  const TurnId first = begin(1, 40, 5);
  const TurnId second = begin(2, 40, 5);
  outgrow(first, 25);
  // The later one leaves itself: nobody else does for it.
  const auto leaves = outgrow(second, 25);
  EXPECT_TRUE(of<RefuseWork>(leaves).empty());
  ASSERT_EQ(of<EvictImage>(leaves).size(), 1u);
  EXPECT_EQ(of<EvictImage>(leaves)[0].job, JobId(2));
  const auto gone = send(ImageLeft{JobId(2)});
  ASSERT_EQ(of<GrantTurn>(gone).size(), 1u);
  EXPECT_EQ(of<GrantTurn>(gone)[0].turn.job, JobId(1));
}

// Images [0, 30) and [30, 60); the first one ends, and the second one's own image parts what is
// free into 30 and 40. It moves, if that makes room; where it has nowhere to go, it leaves and
// comes back, or its iteration is refused.
TEST_F(WaitsTest, AJobAloneInThePoolIsNotHeldByItsOwnImage) {
  make(100, 4);
  offer(1, 30, 5);
  const TurnId turn = begin(2, 30, 5);
  send(JobEnded{JobId(1)});
  const auto stuck = outgrow(turn, 60);
  ASSERT_EQ(of<MoveImage>(stuck).size(), 1u);
  EXPECT_EQ(of<MoveImage>(stuck)[0].offset, units(0));
  EXPECT_TRUE(of<RefuseWork>(stuck).empty());
  const auto moved = place(2);
  EXPECT_EQ(of<ResizeRegion>(moved).at(0).size, units(60));
  EXPECT_EQ(of<GrantTurn>(moved).size(), 1u);
}

// Image [20, 60): neither of the pieces beside it has room for it.
TEST_F(WaitsTest, AJobAloneInThePoolLeavesItWhereItsImageCannotMove) {
  for (const bool outside : {false, true}) {
    store_ = units(outside ? 100 : 0);
    make(100, 4);
    offer(1, 20, 5);
    const TurnId turn = begin(2, 40, 25);
    send(JobEnded{JobId(1)});
    const auto stuck = outgrow(turn, 60);
    EXPECT_TRUE(of<MoveImage>(stuck).empty());
    if (outside) {
      EXPECT_EQ(of<EvictImage>(stuck).size(), 1u);
      const auto back = send(ImageLeft{JobId(2)});
      ASSERT_EQ(of<PlaceImage>(back).size(), 1u);
      EXPECT_EQ(of<OpenRegion>(back).at(0).size, units(60));
    } else {
      EXPECT_EQ(of<RefuseWork>(stuck).size(), 1u);
    }
  }
}

// Both are held for their large graphs, and the last one loses that iteration. What comes behind it
// does not fit what is left of its lane either, but there is room for so much.
TEST_F(WaitsTest, AfterARefusalASmallerIterationGetsWhatItNeeds) {
  make(100, 4);
  const TurnId first = begin(1, 40, 5);
  const TurnId second = begin(2, 40, 5);
  outgrow(first, 50);
  const auto stuck = outgrow(second, 50);
  ASSERT_EQ(of<RefuseWork>(stuck).size(), 1u);
  ASSERT_EQ(of<GrantTurn>(stuck).size(), 1u);
  const Turn next = of<GrantTurn>(stuck)[0].turn;
  ASSERT_EQ(next.job, JobId(2));
  ASSERT_LT(next.envelope.ceiling, units(9));
  const auto grown = send(TurnEnded{.turn = next.id,
                                    .end = TurnEnd::out_of_lane,
                                    .busy = Duration(),
                                    .more_ready = true,
                                    .ephemeral = units(50),
                                    .must = units(9)});
  EXPECT_TRUE(of<RefuseWork>(grown).empty());
  ASSERT_EQ(of<GrantTurn>(grown).size(), 1u);
  EXPECT_GE(of<GrantTurn>(grown)[0].turn.envelope.ceiling, units(9));
}

TEST_F(WaitsTest, WhoeverIsHeldWaitsForJobsThatHaveNothingToRun) {
  make(100, 4);
  offer(1, 60, 5);
  place(1);
  EXPECT_TRUE(of<RefuseWork>(outgrow(begin(2, 10, 5), 40)).empty());
  const auto ended = send(JobEnded{JobId(1)});
  EXPECT_EQ(of<GrantTurn>(ended).at(0).turn.job, JobId(2));
}

// Regions [95, 100) and [90, 95). Exactly 25 are free with the first one's own 5, and the second
// one lies between them.
TEST_F(WaitsTest, ARegionUnderATurnSlidesAtItsBoundaryForOneThatMustGrow) {
  make(100, 4);
  const TurnId first = begin(1, 35, 5);
  const TurnId second = begin(2, 35, 5);
  const auto held = outgrow(first, 25);
  ASSERT_EQ(job(1).state, JobState::held);
  ASSERT_EQ(of<RecallTurn>(held).size(), 1u);
  EXPECT_EQ(of<RecallTurn>(held)[0].turn, second);
  const auto boundary = end_turn(second, TurnEnd::budget, /*more_ready=*/true);
  EXPECT_EQ(of<GrantTurn>(boundary).size(), 2u) << "both run";
  EXPECT_EQ(job(1).state, JobState::running);
}

// The first job's end leaves 20 below, 20 between and 20 above.
TEST_F(WaitsTest, AnIdleRegionSlidesForOneThatWaits) {
  make(100, 4);
  offer(1, 20, 20);
  offer(2, 20, 20);
  send(JobEnded{JobId(1)});
  const auto admitted = offer(3, 35, 5);
  EXPECT_EQ(of<ResizeRegion>(admitted).at(0).offset, units(80));
  EXPECT_EQ(of<AdmitJob>(admitted).size(), 1u);
}

TEST_F(WaitsTest, TheLargeRegionOfAnIdleJobIsGivenUpWithItsImage) {
  store_ = units(100);
  make(100, 4);
  offer(1, 10, 70);
  place(1);
  EXPECT_EQ(of<EvictImage>(offer(2, 30, 30)).size(), 1u);
  EXPECT_EQ(of<AdmitJob>(send(ImageLeft{JobId(1)})).size(), 1u);
}

TEST_F(WaitsTest, TheQueueIsToldOnlyOfOtherReasonsAndStatusCountsThePositions) {
  make(100, 4);
  offer(1, 50, 40);
  for (uint64_t id = 2; id <= 9; ++id) EXPECT_EQ(of<QueueJob>(offer(id, 60, 10)).size(), 1u);
  EXPECT_EQ(job(9).reason.position, 8u);
  const auto admitted = send(JobEnded{JobId(1)});
  ASSERT_EQ(of<AdmitJob>(admitted).size(), 1u);
  const auto told = of<QueueJob>(admitted);
  ASSERT_EQ(told.size(), 1u) << "the next in line was tried; nothing is new for those behind it";
  EXPECT_EQ(told[0].job, JobId(3));
  EXPECT_EQ(told[0].reason.code, ReasonCode::pool_full);
  EXPECT_EQ(told[0].reason.position, 1u);
  EXPECT_EQ(job(9).reason.position, 7u);
}

// The long job 2 waits for longest, behind job 3, which finds no room. It has its reservation after
// 20 times the work in front of it: of job 1, that a turn may do much of.
TEST_F(WaitsTest, WorkThatIsDoneInFrontBringsAReservationForward) {
  make(100, 4, 0, policies::make_policy("sjf:reserve_s=1").value());
  JobOffered job;
  job.session = SessionId(1);
  job.iteration_estimate = milliseconds(1);
  job.ephemeral = units(10);
  const auto offered = [&](uint64_t id, int64_t persistent, uint64_t iterations) {
    job.job = JobId(id);
    job.persistent = units(persistent);
    job.options.total_iterations = iterations;
    return job;
  };
  send(offered(1, 60, 1'000));
  place(1);
  const TurnId turn = of<GrantTurn>(ready(1)).at(0).turn.id;
  const std::array<Event, 2> both{offered(2, 10, 100'000), offered(3, 60, 10)};
  ASSERT_TRUE(of<AdmitJob>(scheduler_->handle(now_, both)).empty());
  now_ = now_ + seconds(2);
  EXPECT_TRUE(of<AdmitJob>(send(TimerFired{})).empty()) << "20 s are not over";
  const auto admitted =
      of<AdmitJob>(end_turn(turn, TurnEnd::budget, /*more_ready=*/true, Bytes(), 990));
  ASSERT_EQ(admitted.size(), 1u);
  EXPECT_EQ(admitted.front().job, JobId(2));
}

}  // namespace
}  // namespace laneway::lanes
