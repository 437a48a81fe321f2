// Images leave the pool so that others find room: who, when, in whose favour, where to; what
// happens when that fails or is not wanted any more; and that nobody leaves in vain.
#include <gtest/gtest.h>

#include "policies/registry.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class EvictTest : public SchedulerTest {
 protected:
  EvictTest() { store_ = units(200); }
  // Admitted and placed, without work; it may leave at once.
  void idle(uint64_t id, int64_t persistent, int64_t ephemeral = 10) {
    offer(id, persistent, ephemeral);
    place(id);
  }
  // Its turn is open.
  TurnId busy(uint64_t id, int64_t persistent, int64_t ephemeral = 10) {
    return of<GrantTurn>(start(id, persistent, ephemeral)).at(0).turn.id;
  }
  std::vector<Action> later(Duration by) {
    now_ = now_ + by;
    return send(TimerFired{});
  }
  std::vector<Action> left(uint64_t id) { return send(ImageLeft{JobId(id)}); }
  static std::vector<uint64_t> leaving(const std::vector<Action>& actions) {
    std::vector<uint64_t> jobs;
    for (const EvictImage& evict : of<EvictImage>(actions)) jobs.push_back(evict.job.value());
    return jobs;
  }
};

using Jobs = std::vector<uint64_t>;

TEST_F(EvictTest, AnIdleJobLeavesForOneThatFindsNoRoomAndComesBackWithItsWork) {
  make(100, 4);
  idle(1, 60);
  const auto offered = offer(2, 60, 10);
  ASSERT_EQ(leaving(offered), Jobs{1});
  EXPECT_EQ(of<EvictImage>(offered).front().to, (OutsidePlace{Tier::store, Bytes()}));
  EXPECT_EQ(of<EvictImage>(offered).front().size, units(60));
  EXPECT_TRUE(of<AdmitJob>(offered).empty()) << "its bytes are still there";
  EXPECT_EQ(job(1).state, JobState::evicting);
  const auto gone = left(1);
  ASSERT_EQ(of<AdmitJob>(gone).size(), 1u);
  EXPECT_EQ(of<AdmitJob>(gone).front().job, JobId(2));
  EXPECT_EQ(job(1).state, JobState::away);
  EXPECT_EQ(job(1).store_bytes, units(60));
  place(2);
  EXPECT_EQ(leaving(ready(1)), Jobs{2});
  const auto back = left(2);
  ASSERT_EQ(of<PlaceImage>(back).size(), 1u);
  EXPECT_EQ(of<PlaceImage>(back).front().job, JobId(1));
  EXPECT_EQ(of<GrantTurn>(place(1)).size(), 1u);
  EXPECT_TRUE(job(1).clean);
}

TEST_F(EvictTest, ItsFormerPlaceIsTheFirstChoice) {
  make(100, 4);
  idle(1, 10);
  idle(2, 30);
  send(ResidencyWanted{JobId(2), Residency::unload});
  left(2);
  send(JobEnded{JobId(1)});
  EXPECT_EQ(of<PlaceImage>(ready(2)).at(0).offset, units(10)) << "0 is free too";
}

TEST_F(EvictTest, WhatSeveralGiveUpForOneIsHisAlsoUnderAPolicyThatFillsGaps) {
  make(100, 1, 0, policies::make_policy("packing").value());
  idle(1, 30);
  idle(2, 30);
  EXPECT_EQ(leaving(offer(3, 80, 10)), (Jobs{1, 2}));
  EXPECT_TRUE(of<AdmitJob>(offer(4, 25, 10)).empty());
  EXPECT_TRUE(of<AdmitJob>(left(1)).empty()) << "job 4 would fit, and have to leave again";
  const auto admitted = of<AdmitJob>(left(2));
  ASSERT_EQ(admitted.size(), 1u);
  EXPECT_EQ(admitted.front().job, JobId(3));
}

TEST_F(EvictTest, NobodyLeavesInVainNorMoreThanAreNeeded) {
  make(100, 8);
  idle(1, 10);
  idle(2, 20);
  idle(3, 10);
  send(ResidencyWanted{JobId(2), Residency::pin});
  EXPECT_TRUE(leaving(offer(4, 70, 10)).empty()) << "it would not fit beside the pinned one";
  EXPECT_EQ(job(4).reason.code, ReasonCode::pool_full);
  send(JobEnded{JobId(4)});
  // 30 are free; 40 and 10 more are wanted, in one piece of image and one of region.
  EXPECT_EQ(leaving(offer(5, 40, 10)).size(), 1u);
}

TEST_F(EvictTest, TheLeastUsefulLeavesFirst) {
  make(100, 8);
  idle(1, 40);
  now_ = now_ + seconds(1);
  idle(2, 40);
  now_ = now_ + seconds(5);
  EXPECT_EQ(leaving(offer(3, 30, 10)), Jobs{1});
}

TEST_F(EvictTest, NobodyLeavesForOneThatWaitsOnlyForATurnToEnd) {
  make(100, 1);
  busy(1, 20);
  idle(2, 20);
  const auto offered = offer(3, 10, 20);
  EXPECT_EQ(of<RecallTurn>(offered).size(), 1u) << "the region grows between two turns";
  EXPECT_TRUE(leaving(offered).empty());
}

TEST_F(EvictTest, WhileSomebodyWaitsATurnWithNothingToRunIsGivenBack) {
  make(100, 4);
  const TurnId turn = busy(1, 20);
  idle(2, 50);
  const auto offered = offer(3, 40, 10);
  ASSERT_EQ(of<RecallTurn>(offered).size(), 1u) << "it has no bound";
  EXPECT_EQ(leaving(offered), Jobs{2});
  const auto granted = of<GrantTurn>(end_turn(turn, TurnEnd::budget, /*more_ready=*/true));
  ASSERT_EQ(granted.size(), 1u);
  EXPECT_TRUE(granted[0].turn.envelope.budget.is_bound());
  EXPECT_GT(granted[0].turn.envelope.lingers, Duration()) << "not for the lane: it may pause";
}

TEST_F(EvictTest, ATurnThatIsOpenForLongIsAskedWhetherThereIsWork) {
  make(100, 4);
  const TurnId turn = busy(1, 60);
  now_ = now_ + seconds(9);
  const auto asked = offer(2, 60, 10);
  EXPECT_EQ(of<RecallTurn>(asked).size(), 1u);
  EXPECT_TRUE(leaving(asked).empty());
  const auto answered = send(TurnEnded{.turn = turn,
                                       .end = TurnEnd::idle,
                                       .iterations = 4,
                                       .busy = milliseconds(1),
                                       .more_ready = false,
                                       .ephemeral = Bytes(),
                                       .idle = seconds(8)});
  EXPECT_EQ(leaving(answered), Jobs{1});
}

// Who asks for a model once must not keep others out of the pool for as long as one that works.
TEST_F(EvictTest, AYoungTurnIsAskedToo) {
  make(100, 4);
  const TurnId turn = busy(1, 60);
  now_ = now_ + milliseconds(1);
  const auto asked = offer(2, 60, 10);
  ASSERT_EQ(of<RecallTurn>(asked).size(), 1u);
  EXPECT_TRUE(leaving(end_turn(turn, TurnEnd::idle, /*more_ready=*/false)).empty());
  ASSERT_LT(scheduler_->next_wakeup(), now_ + milliseconds(1)) << "idle for as long as a switch";
  EXPECT_EQ(leaving(later(milliseconds(1))), Jobs{1});
}

TEST_F(EvictTest, ATurnThatHasWorkIsAskedOnce) {
  make(100, 4);
  const TurnId turn = busy(1, 60);
  ASSERT_EQ(of<RecallTurn>(offer(2, 60, 10)).size(), 1u);
  ASSERT_EQ(of<GrantTurn>(end_turn(turn, TurnEnd::budget, /*more_ready=*/true)).size(), 1u);
  for (int i = 0; i < 100; ++i) {
    const auto actions = later(milliseconds(50));
    EXPECT_TRUE(of<RecallTurn>(actions).empty());
    EXPECT_TRUE(leaving(actions).empty()) << "it came first";
  }
}

// P1: equal jobs do not leave for each other.
TEST_F(EvictTest, OfTwoEqualJobsTheFirstStaysUntilItIsDone) {
  make(100, 4);
  TurnId turn = busy(1, 60);
  offer(2, 60, 10);
  ready(2);
  for (int round = 0; round < 20; ++round) {
    EXPECT_TRUE(leaving(later(seconds(1))).empty());
    const auto ended = end_turn(turn, TurnEnd::budget, /*more_ready=*/true);
    EXPECT_TRUE(leaving(ended).empty()) << "round " << round;
    for (const GrantTurn& grant : of<GrantTurn>(ended)) turn = grant.turn.id;
  }
  send(JobEnded{JobId(1)});
  EXPECT_EQ(of<AdmitJob>(end_turn(turn, TurnEnd::idle, false)).at(0).job, JobId(2));
}

TEST_F(EvictTest, ByRequestTwoJobsThatEachNeedMostOfThePoolTakeTurns) {
  make(100, 4, 0, policies::make_policy("fifo:by=request:age=off").value());
  TurnId turn = busy(1, 60);
  offer(2, 60, 10);
  ready(2);
  uint64_t inside = 1;
  for (int round = 0; round < 6; ++round) {
    for (int answer = 0; answer < 3 && job(inside).state != JobState::evicting; ++answer) {
      later(milliseconds(25));
      if (job(inside).state != JobState::running) continue;
      const auto ended = end_turn(turn, TurnEnd::budget, /*more_ready=*/true);
      for (const GrantTurn& grant : of<GrantTurn>(ended)) turn = grant.turn.id;
    }
    ASSERT_EQ(job(inside).state, JobState::evicting) << "round " << round;
    const auto gone = left(inside);
    inside = 3 - inside;
    ASSERT_EQ(of<PlaceImage>(gone).size(), 1u);
    EXPECT_EQ(of<PlaceImage>(gone).front().job, JobId(inside));
    turn = of<GrantTurn>(place(inside)).at(0).turn.id;
  }
}

// The standstill of a pool in which what stayed of the image that is wanted lay where a region had
// to slide: that alone was never given up, and with it nobody had to leave.
TEST_F(EvictTest, WhatStayedOfAnImageIsNotInItsOwnWay) {
  make(100, 4);
  WorkerReport report;
  report.regions.push_back({RegionId(1), LaneId(1), units(31), units(18)});
  ReportedJob idle = in_pool(away_at(2, 33, {}), 51);
  idle.offer.ephemeral = units(18);
  ReportedJob wanted = away_at(1, 33, {Tier::store, units(0)});
  wanted.offer.ephemeral = units(18);
  wanted.image.prefix = {.offset = units(49), .size = units(1)};
  wanted.ready = true;
  ReportedJob other = away_at(3, 12, {Tier::store, units(50)});
  other.image.prefix = {.offset = units(50), .size = units(1)};
  report.jobs = {wanted, idle, other};
  // Without both of what stayed the region goes up to 33 … 51, and the image finds 0 … 33.
  const auto actions = send(WorkerReported{report});
  EXPECT_EQ(of<DropPrefix>(actions).size(), 2u);
  EXPECT_TRUE(leaving(actions).empty()) << "nobody has to leave";
  ASSERT_EQ(of<PlaceImage>(actions).size(), 1u);
  EXPECT_EQ(of<PlaceImage>(actions).front().job, JobId(1));
}

TEST_F(EvictTest, WhoHasWorkStaysForAWhileAndForTheLessUrgent) {
  make(100, 4);
  JobOffered urgent;
  urgent.job = JobId(1);
  urgent.session = SessionId(1);
  urgent.persistent = units(60);
  urgent.ephemeral = units(10);
  urgent.options.priority = 5;
  send(urgent);
  place(1);
  TurnId turn = of<GrantTurn>(ready(1)).at(0).turn.id;
  // It is asked, because nobody knows whether it has work; it has, and nobody waits for another
  // answer.
  ASSERT_EQ(of<RecallTurn>(offer(2, 60, 10)).size(), 1u);
  const auto answered = end_turn(turn, TurnEnd::budget, /*more_ready=*/true);
  EXPECT_TRUE(leaving(answered).empty());
  EXPECT_TRUE(leaving(later(seconds(9))).empty());
  EXPECT_EQ(job(1).state, JobState::running);
}

TEST_F(EvictTest, AHeldJobGetsTheRoomOfOthers) {
  make(100, 4);
  idle(1, 60);
  const TurnId turn = busy(2, 10);
  const auto grown = end_turn(turn, TurnEnd::out_of_lane, true, units(40));
  EXPECT_EQ(leaving(grown), Jobs{1});
  EXPECT_EQ(job(2).state, JobState::held);
  EXPECT_EQ(of<GrantTurn>(left(1)).size(), 1u);
}

TEST_F(EvictTest, ACopyInTheStoreMakesPlaceForTheHomeOfOneWhoFindsNone) {
  store_ = units(50);
  spill_ = units(40);
  make(100, 4);
  idle(1, 40);  // at home in the file
  EXPECT_EQ(of<EvictImage>(send(ResidencyWanted{JobId(1), Residency::unload})).at(0).to.tier,
            Tier::store);
  left(1);
  ready(1);
  const TurnId turn = of<GrantTurn>(place(1)).at(0).turn.id;
  EXPECT_TRUE(job(1).clean);
  end_turn(turn, TurnEnd::idle, false);
  now_ = now_ + seconds(1);
  const auto actions = offer(2, 40, 10);
  ASSERT_EQ(of<DropCopy>(actions).size(), 1u);
  EXPECT_EQ(of<DropCopy>(actions).front().job, JobId(1));
  EXPECT_FALSE(job(1).clean);
  place(2);
  EXPECT_EQ(of<EvictImage>(send(ResidencyWanted{JobId(2), Residency::unload})).at(0).to.tier,
            Tier::store);
  left(2);
  EXPECT_EQ(of<EvictImage>(send(ResidencyWanted{JobId(1), Residency::unload})).at(0).to.tier,
            Tier::spill)
      << "the store is full, and its home is its own";
}

TEST_F(EvictTest, WhoGetsOverdueIsLetInThoughNothingElseHappens) {
  store_ = units(200);
  make(100, 4, 0, policies::make_policy("fifo").value());
  const auto granted = of<GrantTurn>(start(1, 60, 10));
  ASSERT_EQ(granted.size(), 1u);
  offer(2, 60, 10);
  const TimePoint offered = now_;
  // An iteration that takes longer than anything: only the clock goes on.
  while (scheduler_->next_wakeup() < offered + seconds(600)) {
    now_ = scheduler_->next_wakeup();
    send(TimerFired{});
  }
  ASSERT_EQ(scheduler_->next_wakeup(), offered + seconds(600));
  now_ = scheduler_->next_wakeup();
  send(TimerFired{});
  EXPECT_EQ(leaving(end_turn(granted.front().turn.id, TurnEnd::budget, true)), Jobs{1});
  EXPECT_EQ(of<AdmitJob>(left(1)).front().job, JobId(2));
}

TEST_F(EvictTest, ACopyThatFailsCostsTheJobNothing) {
  make(100, 4);
  idle(1, 60);
  offer(2, 60, 10);
  ready(1);
  const auto failed = send(CopyFailed{JobId(1)});
  EXPECT_EQ(of<GrantTurn>(failed).size(), 1u) << "its work came meanwhile";
  EXPECT_TRUE(leaving(failed).empty()) << "not at once again";
  EXPECT_EQ(job(1).store_bytes, Bytes());
  EXPECT_EQ(job(2).state, JobState::waiting);
}

TEST_F(EvictTest, EndsAndDirtWhileAnImageLeaves) {
  make(100, 4);
  idle(1, 60);
  offer(2, 60, 10);
  send(ImageDirty{JobId(1)});
  EXPECT_EQ(job(1).store_bytes, units(60)) << "its place is kept until the answer";
  const auto ended = send(JobEnded{JobId(1)});
  EXPECT_EQ(of<DropImage>(ended).size(), 1u);
  EXPECT_EQ(of<AdmitJob>(ended).size(), 1u);
  EXPECT_TRUE(left(1).empty()) << "of a job that is over";
}

// The client submits while the lane is given to its job, so the worker takes the work in the turn
// that it announces once more.
TEST_F(EvictTest, AnUnloadedJobThatCameBackForWorkThatWasDoneLeavesAgain) {
  make(100, 4);
  const TurnId turn = busy(1, 60);
  ready(1);
  EXPECT_EQ(of<RecallTurn>(send(ResidencyWanted{JobId(1), Residency::unload})).size(), 1u);
  ASSERT_EQ(leaving(end_turn(turn, TurnEnd::idle, /*more_ready=*/false)), Jobs{1});
  const auto back = left(1);
  ASSERT_EQ(of<PlaceImage>(back).size(), 1u) << "its work may not be done";
  const Turn empty = of<GrantTurn>(place(1)).at(0).turn;
  EXPECT_TRUE(empty.envelope.budget.is_bound()) << "it is given back when there is nothing to run";
  EXPECT_EQ(leaving(end_turn(empty.id, TurnEnd::idle, false, Bytes(), /*iterations=*/0)), Jobs{1});
  EXPECT_TRUE(of<PlaceImage>(left(1)).empty());
  EXPECT_EQ(job(1).state, JobState::away);
}

TEST_F(EvictTest, AnUnloadedJobThatCameBackForWorkStays) {
  make(100, 4);
  idle(1, 60);
  send(ResidencyWanted{JobId(1), Residency::unload});
  ready(1);
  left(1);
  const TurnId turn = of<GrantTurn>(place(1)).at(0).turn.id;
  EXPECT_TRUE(leaving(end_turn(turn, TurnEnd::idle, /*more_ready=*/false)).empty());
  const TurnId next = of<GrantTurn>(ready(1)).at(0).turn.id;
  EXPECT_TRUE(leaving(end_turn(next, TurnEnd::idle, false, Bytes(), /*iterations=*/0)).empty());
  EXPECT_EQ(job(1).state, JobState::resident);
}

TEST_F(EvictTest, LoadAndUnloadDoWhatTheyAreAskedTo) {
  make(100, 4);
  const TurnId turn = busy(1, 60);
  send(ResidencyWanted{JobId(1), Residency::unload});
  EXPECT_EQ(leaving(end_turn(turn, TurnEnd::budget, true)), Jobs{1}) << "with work too";
  EXPECT_EQ(of<PlaceImage>(left(1)).size(), 1u) << "which brings it back";
  end_turn(of<GrantTurn>(place(1)).at(0).turn.id, TurnEnd::idle, false);
  send(ResidencyWanted{JobId(1), Residency::unload});
  EXPECT_TRUE(of<PlaceImage>(left(1)).empty());
  EXPECT_EQ(of<PlaceImage>(send(ResidencyWanted{JobId(1), Residency::load})).size(), 1u);
  place(1);
  send(ResidencyWanted{JobId(1), Residency::pin});
  EXPECT_TRUE(send(ResidencyWanted{JobId(1), Residency::unload}).empty()) << "it is pinned";
  send(ResidencyWanted{JobId(1), Residency::unpin});
  EXPECT_EQ(leaving(send(ResidencyWanted{JobId(1), Residency::unload})), Jobs{1});
}

TEST_F(EvictTest, ASmallerPoolSendsAwayWhatLiesAboveItsEnd) {
  make(100, 4);
  idle(1, 20);
  idle(2, 50);
  EXPECT_EQ(leaving(send(CapacityChanged{units(60)})), Jobs{2});
  left(2);
  EXPECT_EQ(scheduler_->pool().capacity(), units(60));
  EXPECT_EQ(job(2).state, JobState::away);
}

TEST_F(EvictTest, WithoutRoomOutsideNobodyLeaves) {
  store_ = Bytes();
  make(100, 4);
  idle(1, 60);
  EXPECT_TRUE(leaving(offer(2, 60, 10)).empty());
  EXPECT_EQ(job(2).reason.code, ReasonCode::pool_full);
  EXPECT_TRUE(send(ResidencyWanted{JobId(1), Residency::unload}).empty());
}

}  // namespace
}  // namespace laneway::lanes
