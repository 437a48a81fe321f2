// What the core decides about memory, event by event: admission, waiting, sharing, growing,
// shrinking. Small scenes whose arithmetic can be done by hand.
#include "lanes/core/scheduler.h"

#include <gtest/gtest.h>

#include <memory>

#include "policies/registry.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

TEST_F(SchedulerTest, AdmitsIntoALaneOfItsOwnImageLowRegionHigh) {
  make(100, 4);
  const auto actions = offer(1, 30, 20);
  ASSERT_EQ(actions.size(), 3u);
  EXPECT_EQ(std::get<AdmitJob>(actions[0]).lane, LaneId(1));
  const auto region = std::get<OpenRegion>(actions[1]);
  EXPECT_EQ(region.offset, units(80));
  EXPECT_EQ(region.size, units(20));
  const auto image = std::get<PlaceImage>(actions[2]);
  EXPECT_EQ(image.offset, units(0));
  EXPECT_EQ(image.size, units(30));
  EXPECT_EQ(job(1).state, JobState::staged);
}

TEST_F(SchedulerTest, ALargerLaneThanNeededIsRecalledAsSoonAsSomebodyWaitsForMemory) {
  make(100, 1);
  start(1, 10, 20);
  const TurnId turn(1);
  offer(2, 10, 50);  // the lane grows for it between two turns
  end_turn(turn, TurnEnd::idle, true);
  place(2);
  ASSERT_EQ(job(2).state, JobState::resident);
  send(JobEnded{JobId(2), false});  // nobody waits: the first one's turn without bound goes on
  ASSERT_EQ(job(1).state, JobState::running);
  const auto waits = offer(3, 60, 20);
  EXPECT_EQ(of<RecallTurn>(waits).size(), 1u) << "it would wait as long as the first one runs";
}

TEST_F(SchedulerTest, RefusesWhatAnEmptyPoolCannotHoldWithTheArithmetic) {
  make(100, 4, /*reserve_units=*/10);
  start(1, 30, 20);
  const auto refused = of<RefuseJob>(offer(2, 60, 31));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].reason.code, ReasonCode::larger_than_pool);
  EXPECT_EQ(refused[0].reason.persistent, units(60));
  EXPECT_EQ(refused[0].reason.region, units(31));
  EXPECT_EQ(refused[0].reason.capacity, units(90)) << "the reserve is nobody's";
  EXPECT_TRUE(of<RefuseJob>(offer(3, 60, 30)).empty()) << "exactly all of it could fit";
  EXPECT_EQ(job(3).reason.code, ReasonCode::pool_full);
  EXPECT_EQ(of<RefuseJob>(offer(4, INT64_MAX / 64, INT64_MAX / 64)).size(), 1u) << "no overflow";
}

TEST_F(SchedulerTest, QueuesWithPositionAndReasonAndAdmitsWhenMemoryIsFreed) {
  make(100, 4);
  start(1, 30, 30);
  const auto offered = offer(2, 50, 30);
  const auto recalls = of<RecallTurn>(offered);
  ASSERT_EQ(recalls.size(), 1u) << "somebody waits: it is to be known whether it has work";
  const auto second = of<QueueJob>(offered);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].reason.code, ReasonCode::pool_full);
  EXPECT_EQ(second[0].reason.position, 1u);
  EXPECT_EQ(second[0].reason.claimed, units(60));
  const auto third = of<QueueJob>(offer(3, 5, 5));
  ASSERT_EQ(third.size(), 1u);
  EXPECT_EQ(third[0].reason.code, ReasonCode::behind_others) << "fifo: head of line";
  EXPECT_EQ(third[0].reason.position, 2u);
  send(JobEnded{JobId(1), false});
  const auto after = end_turn(recalls[0].turn, TurnEnd::idle, false);
  EXPECT_EQ(of<DropImage>(after).at(0).job, JobId(1));
  EXPECT_EQ(of<CloseRegion>(after).size(), 1u);
  const auto admitted = of<AdmitJob>(after);
  ASSERT_EQ(admitted.size(), 2u);
  EXPECT_EQ(admitted[0].job, JobId(2));
  EXPECT_EQ(admitted[1].job, JobId(3));
}

TEST_F(SchedulerTest, SharesALaneWhenANewOneFindsNoRoom) {
  make(100, 4);
  start(1, 30, 40);
  // 30 + 40 + 20 + 10 = 100 fits only if the 40 are used by both.
  const auto actions = offer(2, 20, 40);
  EXPECT_EQ(of<AdmitJob>(actions).at(0).lane, LaneId(1));
  EXPECT_TRUE(of<OpenRegion>(actions).empty());
  EXPECT_EQ(scheduler_->pool().claimed(), units(90));
}

TEST_F(SchedulerTest, GrowsALaneForAnotherJobBetweenTwoTurns) {
  make(100, 1);
  const Turn turn = of<GrantTurn>(start(1, 10, 20)).at(0).turn;
  const auto offered = offer(2, 10, 50);
  EXPECT_EQ(of<RecallTurn>(offered).size(), 1u) << "the region may not change under a turn";
  EXPECT_TRUE(of<AdmitJob>(offered).empty());
  const auto after = end_turn(turn.id, TurnEnd::budget, true);
  EXPECT_EQ(of<AdmitJob>(after).size(), 1u);
  const auto resized = of<ResizeRegion>(after);
  ASSERT_EQ(resized.size(), 1u);
  EXPECT_EQ(resized[0].size, units(50));
  EXPECT_EQ(resized[0].offset, units(50));
  EXPECT_EQ(of<GrantTurn>(after).at(0).turn.envelope.ceiling, units(50));
}

TEST_F(SchedulerTest, WaitsForALaneWhenAllAreTakenAndThePolicySharesNone) {
  make(100, 1, 0, policies::make_policy("fifo:share=no").value());
  start(1, 10, 10);
  EXPECT_EQ(of<QueueJob>(offer(2, 10, 10)).at(0).reason.code, ReasonCode::lanes_exhausted);
}

TEST_F(SchedulerTest, TellsFragmentedFromFull) {
  make(100, 4);
  offer(1, 30, 1);
  offer(2, 30, 1);
  offer(3, 30, 1);
  send(JobEnded{JobId(1), false});
  send(JobEnded{JobId(3), false});
  // Free are 30 at the bottom and 38 or 39 at the top: 69 bytes, but no 50 in one piece.
  const auto queued = of<QueueJob>(offer(4, 50, 1));
  ASSERT_EQ(queued.size(), 1u);
  EXPECT_EQ(queued[0].reason.code, ReasonCode::pool_fragmented);
  EXPECT_LT(queued[0].reason.largest_free, units(50));
}

TEST_F(SchedulerTest, GrowsTheLaneAfterOutOfLaneAndRunsAgain) {
  make(100, 4);
  const Turn turn = of<GrantTurn>(start(1, 10, 20)).at(0).turn;
  const auto after = end_turn(turn.id, TurnEnd::out_of_lane, true, units(35), 0);
  EXPECT_EQ(of<ResizeRegion>(after).at(0).size, units(35));
  EXPECT_EQ(of<GrantTurn>(after).at(0).turn.envelope.ceiling, units(35));
  // A worker that says it needs no more than it had would come back for ever: a quarter more.
  const Turn second = of<GrantTurn>(after).at(0).turn;
  const auto again = end_turn(second.id, TurnEnd::out_of_lane, true, units(20), 0);
  EXPECT_EQ(job(1).ephemeral, Bytes(units(35).count() + units(35).count() / 4));
  EXPECT_EQ(of<GrantTurn>(again).size(), 1u);
}

TEST_F(SchedulerTest, HoldsAJobWhoseLaneCannotGrowAndAdmitsNobodyBeforeIt) {
  make(100, 4);
  const Turn turn = of<GrantTurn>(start(1, 10, 20)).at(0).turn;
  start(2, 30, 30);
  const auto after = end_turn(turn.id, TurnEnd::out_of_lane, true, units(60), 0);
  EXPECT_TRUE(of<GrantTurn>(after).empty());
  EXPECT_EQ(job(1).state, JobState::held);
  EXPECT_EQ(job(1).reason.code, ReasonCode::region_too_small);
  EXPECT_EQ(of<ResizeRegion>(after).at(0).size, units(1)) << "what it can't use is given back";
  EXPECT_EQ(of<QueueJob>(offer(3, 1, 1)).at(0).reason.code, ReasonCode::pool_full);
  const auto recalls = of<RecallTurn>(after);  // whoever has nothing to run is to be known
  send(JobEnded{JobId(2), true});
  const auto freed = end_turn(recalls.at(0).turn, TurnEnd::idle, false);
  EXPECT_EQ(of<GrantTurn>(freed).at(0).turn.job, JobId(1));
  EXPECT_EQ(of<GrantTurn>(freed).at(0).turn.envelope.ceiling, units(60));
  EXPECT_EQ(of<AdmitJob>(freed).at(0).job, JobId(3));
}

TEST_F(SchedulerTest, FailsAJobWhoseNeedOutgrowsThePool) {
  make(100, 4);
  const Turn turn = of<GrantTurn>(start(1, 10, 20)).at(0).turn;
  const auto after = end_turn(turn.id, TurnEnd::out_of_lane, true, units(91), 0);
  EXPECT_EQ(of<RefuseJob>(after).at(0).reason.code, ReasonCode::larger_than_pool);
  EXPECT_EQ(of<DropImage>(after).size(), 1u);
  EXPECT_EQ(scheduler_->pool().claimed(), Bytes(0));
  EXPECT_EQ(scheduler_->snapshot().ended.at(0).state, JobState::failed);
}

TEST_F(SchedulerTest, ShrinksTheRegionToWhatTheProbeFoundAndLetsOthersIn) {
  make(100, 4);
  const Turn turn = of<GrantTurn>(start(1, 10, 60)).at(0).turn;
  offer(2, 20, 30);  // 10 + 60 + 20 + 30 > 100: shares the lane
  EXPECT_EQ(job(2).lane, LaneId(1));
  offer(3, 20, 25);
  EXPECT_EQ(job(3).state, JobState::waiting);
  const auto after = end_turn(turn.id, TurnEnd::idle, false, units(35));
  EXPECT_EQ(of<ResizeRegion>(after).at(0).size, units(35)) << "the larger of 35 and 30";
  const auto admitted = of<AdmitJob>(after);
  ASSERT_EQ(admitted.size(), 1u) << "10 + 20 + 20 + 35 fits";
  EXPECT_EQ(admitted[0].lane, LaneId(1)) << "and a lane of 25 of its own would not";
}

TEST_F(SchedulerTest, ShrinksThePoolWhenEverythingAboveIsGone) {
  make(100, 4);
  const Turn turn = of<GrantTurn>(start(1, 10, 20)).at(0).turn;  // its region is 80 to 100
  EXPECT_EQ(of<RecallTurn>(send(CapacityChanged{units(60)})).size(), 1u);
  EXPECT_EQ(scheduler_->pool().capacity(), units(100)) << "deferred: a turn is open there";
  EXPECT_EQ(of<QueueJob>(offer(2, 1, 1)).size(), 1u) << "nobody is admitted meanwhile";
  const auto after = end_turn(turn.id, TurnEnd::budget, true);
  const auto moved = of<ResizeRegion>(after);
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_LE(moved[0].offset + moved[0].size, units(60));
  EXPECT_EQ(scheduler_->pool().capacity(), units(60));
  EXPECT_EQ(of<AdmitJob>(after).size(), 1u);
  EXPECT_EQ(of<RefuseJob>(offer(3, 50, 11)).size(), 1u);
  send(CapacityChanged{units(200)});
  EXPECT_EQ(scheduler_->pool().capacity(), units(200)) << "growing happens at once";
}

TEST_F(SchedulerTest, RefusesMoreJobsThanItsLimit) {
  SchedulerConfig config;
  config.capacity = units(100);
  config.max_jobs = 2;
  scheduler_ = std::make_unique<Scheduler>(config, std::make_unique<policies::Fifo>());
  offer(1, 1, 1);
  offer(2, 1, 1);
  EXPECT_EQ(of<RefuseJob>(offer(3, 1, 1)).at(0).reason.code, ReasonCode::too_many_jobs);
}

TEST_F(SchedulerTest, TheSnapshotsMapTilesThePool) {
  make(100, 4, 5);
  start(1, 10, 20);
  offer(2, 30, 15);
  const Snapshot all = scheduler_->snapshot();
  ASSERT_EQ(all.pool.size(), 5u);
  EXPECT_EQ(all.pool[0].job, JobId(1));
  EXPECT_EQ(all.pool[1].job, JobId(2));
  EXPECT_EQ(all.pool[2].kind, PieceKind::free);
  EXPECT_EQ(all.pool[2].size, units(25));
  EXPECT_EQ(all.pool[3].lane, LaneId(2));
  EXPECT_EQ(all.pool[4].lane, LaneId(1));
  EXPECT_EQ(all.claimed, units(80));
  using memory::ClaimClass;
  EXPECT_EQ(all.claimed_by_class[static_cast<size_t>(ClaimClass::persistent)], units(40));
  EXPECT_EQ(all.claimed_by_class[static_cast<size_t>(ClaimClass::region)], units(35));
  EXPECT_EQ(all.claimed_by_class[static_cast<size_t>(ClaimClass::overhead)], units(5));
  EXPECT_EQ(all.lanes.size(), 2u);
  EXPECT_EQ(all.lanes[0].running, JobId(1));
}

}  // namespace
}  // namespace laneway::lanes
