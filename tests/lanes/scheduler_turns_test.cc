// Whose turn the core lets it be, event by event: recalls, budgets, numeric contexts, lost workers,
// vanished sessions, wrong policies.
#include "lanes/core/scheduler.h"

#include <gtest/gtest.h>

#include <memory>

#include "policies/policy.h"
#include "policies/srtf.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

TEST_F(SchedulerTest, GrantsATurnWithoutBoundWhenNobodyElseWantsTheLane) {
  make(100, 4);
  offer(1, 30, 20);
  EXPECT_TRUE(of<GrantTurn>(ready(1)).empty()) << "its image is not there yet";
  const auto grants = of<GrantTurn>(place(1));
  ASSERT_EQ(grants.size(), 1u);
  const Turn turn = grants[0].turn;
  EXPECT_EQ(turn.job, JobId(1));
  EXPECT_EQ(turn.envelope.base, units(80));
  EXPECT_EQ(turn.envelope.ceiling, units(20));
  EXPECT_EQ(turn.envelope.budget.iterations, 0u);
  EXPECT_EQ(turn.envelope.budget.slice, Duration(0));
  EXPECT_EQ(scheduler_->next_wakeup(), TimePoint::never());
}

TEST_F(SchedulerTest, RecallsAnUnboundedTurnWhenARivalGetsReadyThenGivesBoundedOnes) {
  make(100, 1);
  const Turn first = of<GrantTurn>(start(1, 10, 20)).at(0).turn;
  offer(2, 10, 20);
  place(2);
  const auto recalls = of<RecallTurn>(ready(2));
  ASSERT_EQ(recalls.size(), 1u);
  EXPECT_EQ(recalls[0].turn, first.id);
  EXPECT_TRUE(of<RecallTurn>(ready(2)).empty()) << "asked once";
  const auto grants = of<GrantTurn>(end_turn(first.id, TurnEnd::budget, /*more_ready=*/true));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].turn.job, JobId(1)) << "fifo: the earliest that has work";
  EXPECT_EQ(grants[0].turn.envelope.budget.iterations, SchedulerConfig().budget.iterations);
  const auto next = of<GrantTurn>(end_turn(grants[0].turn.id, TurnEnd::idle, false));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].turn.job, JobId(2));
  EXPECT_EQ(next[0].turn.envelope.budget.iterations, 0u) << "no rival is left";
}

TEST_F(SchedulerTest, RecallsABoundedTurnThatIsStillOpenAfterTwiceItsSlice) {
  make(100, 1);
  const Turn first = of<GrantTurn>(start(1, 10, 20)).at(0).turn;
  start(2, 10, 20);
  const Turn bounded = of<GrantTurn>(end_turn(first.id, TurnEnd::budget, true)).at(0).turn;
  const TimePoint due = now_ + SchedulerConfig().budget.slice * 2;
  EXPECT_EQ(scheduler_->next_wakeup(), due);
  EXPECT_TRUE(scheduler_->handle(due + Duration(-1), TimerFired{}).empty());
  const auto recalls = of<RecallTurn>(scheduler_->handle(due, TimerFired{}));
  ASSERT_EQ(recalls.size(), 1u);
  EXPECT_EQ(recalls[0].turn, bounded.id);
  EXPECT_EQ(scheduler_->next_wakeup(), TimePoint::never());
}

TEST_F(SchedulerTest, WorkAnnouncedDuringATurnIsNotLostWhenTheTurnEndsIdle) {
  make(100, 1);
  const Turn first = of<GrantTurn>(start(1, 10, 20)).at(0).turn;
  EXPECT_TRUE(ready(1).empty()) << "a turn is open: the worker looks for itself";
  // The worker saw an empty queue before the submission; its report crosses the announcement.
  const auto grants = of<GrantTurn>(end_turn(first.id, TurnEnd::idle, /*more_ready=*/false));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].turn.job, JobId(1));
}

TEST_F(SchedulerTest, KeepsNumericContextsApartAndStarvesNone) {
  make(100, 4);
  const Turn first = of<GrantTurn>(start(1, 5, 5, /*context_key=*/1)).at(0).turn;
  const auto second = start(2, 5, 5, /*context_key=*/2);
  EXPECT_TRUE(of<GrantTurn>(second).empty());
  EXPECT_EQ(of<RecallTurn>(second).at(0).turn, first.id);
  EXPECT_EQ(job(2).reason.code, ReasonCode::context_conflict);
  EXPECT_TRUE(of<GrantTurn>(start(3, 5, 5, /*context_key=*/1)).empty()) << "2 waited before it";
  const auto third = of<GrantTurn>(end_turn(first.id, TurnEnd::budget, true));
  ASSERT_EQ(third.size(), 1u);
  EXPECT_EQ(third[0].turn.job, JobId(2));
  EXPECT_GT(third[0].turn.envelope.budget.iterations, 0u) << "bounded: key 1 waits";
  const auto back = of<GrantTurn>(end_turn(third[0].turn.id, TurnEnd::budget, true));
  ASSERT_EQ(back.size(), 2u) << "both jobs of key 1, side by side";
}

TEST_F(SchedulerTest, AJobThatIsKilledInItsTurnMakesRoomWhenTheTurnHasEnded) {
  make(100, 2);
  const Turn turn = of<GrantTurn>(start(1, 30, 10)).at(0).turn;
  EXPECT_EQ(of<RecallTurn>(offer(2, 80, 10)).at(0).turn, turn.id);
  send(JobEnded{JobId(1), true});
  const auto after = end_turn(turn.id, TurnEnd::budget, true);
  EXPECT_EQ(of<DropImage>(after).at(0).job, JobId(1));
  EXPECT_EQ(of<AdmitJob>(after).at(0).job, JobId(2));
  EXPECT_EQ(scheduler_->snapshot().ended.size(), 1u);
  EXPECT_EQ(scheduler_->snapshot().ended[0].state, JobState::cancelled);
}

TEST_F(SchedulerTest, ALostWorkersTurnsAreOverAndNothingRunsWithoutOne) {
  make(100, 2);
  const Turn turn = of<GrantTurn>(start(1, 10, 10)).at(0).turn;
  offer(2, 10, 10);  // its image is on the way
  EXPECT_TRUE(send(WorkerLost{}).empty());
  EXPECT_TRUE(end_turn(turn.id, TurnEnd::idle, false).empty()) << "a report of the dead";
  EXPECT_TRUE(of<GrantTurn>(ready(1)).empty());
  EXPECT_TRUE(of<GrantTurn>(send(TimerFired{})).empty());
  EXPECT_EQ(scheduler_->snapshot().jobs.at(0).state, JobState::resident);
  EXPECT_FALSE(scheduler_->snapshot().worker_up);
}

// Answers with a job that does not exist, or with the one that was there first.
class Wrong final : public policies::Policy {
 public:
  std::string_view name() const override { return "wrong"; }
  policies::AdmitDecision admit(TimePoint, const policies::View&) override {
    return {.job = JobId(99), .lane = {}};
  }
  policies::PickDecision pick(TimePoint, const policies::View&,
                              const policies::PickQuestion&) override {
    return {.job = JobId(99)};
  }
  policies::EvictDecision evict(TimePoint, const policies::View&,
                                const policies::EvictQuestion&) override {
    return {};
  }
};

TEST_F(SchedulerTest, RefusesNonsenseAndGoesOnWithFifo) {
  make(100, 1, 0, std::make_unique<Wrong>());
  EXPECT_EQ(of<AdmitJob>(offer(1, 10, 10)).size(), 1u);
  EXPECT_EQ(scheduler_->policy_faults(), 1u);
  place(1);
  EXPECT_EQ(of<GrantTurn>(ready(1)).size(), 1u);
  EXPECT_EQ(scheduler_->policy_faults(), 2u);
  scheduler_->set_policy(std::make_unique<policies::Srtf>());
  EXPECT_EQ(scheduler_->snapshot().policy, "srtf");
}

}  // namespace
}  // namespace laneway::lanes
