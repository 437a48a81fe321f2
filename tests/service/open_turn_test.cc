// Shows that a turn's budget is used up by iterations or by time, whichever comes first, and that
// its report says what was done in it, by cranking a clock.
#include "service/worker/jobs/open_turn.h"

#include <gtest/gtest.h>

namespace laneway::service {
namespace {

lanes::Turn turn_with(lanes::TurnBudget budget) {
  lanes::Turn turn{.id = TurnId(7), .lane = LaneId(1), .job = JobId(2), .envelope = {}};
  turn.envelope.budget = budget;
  return turn;
}

TEST(OpenTurn, WithoutABoundItIsNeverUsedUp) {
  ManualClock clock;
  OpenTurn turn(clock);
  EXPECT_FALSE(turn.is_open());
  turn.begin(turn_with({}));
  ASSERT_TRUE(turn.is_open());
  EXPECT_EQ(turn.id(), TurnId(7));
  EXPECT_FALSE(turn.is_bounded());
  for (int i = 0; i < 1000; ++i) turn.count_iteration(IterationKind::counted);
  clock.advance(seconds(1000));
  EXPECT_FALSE(turn.budget_used());
}

TEST(OpenTurn, IterationsUseUpItsBudget) {
  ManualClock clock;
  OpenTurn turn(clock);
  turn.begin(turn_with({.iterations = 2, .slice = Duration()}));
  EXPECT_TRUE(turn.is_bounded());
  turn.count_iteration(IterationKind::counted);
  EXPECT_FALSE(turn.budget_used());
  turn.count_iteration(IterationKind::counted);
  EXPECT_TRUE(turn.budget_used());
}

TEST(OpenTurn, TimeUsesUpItsBudgetFromWhereTheTurnBegan) {
  ManualClock clock;
  clock.advance(seconds(5));
  OpenTurn turn(clock);
  turn.begin(turn_with({.iterations = 100, .slice = milliseconds(3)}));
  turn.count_iteration(IterationKind::counted);
  clock.advance(milliseconds(2));
  EXPECT_FALSE(turn.budget_used());
  clock.advance(milliseconds(1));
  EXPECT_TRUE(turn.budget_used());
}

TEST(OpenTurn, HasHadNothingToDoSinceItsLastIterationOrSinceItBegan) {
  ManualClock clock;
  clock.advance(seconds(5));
  OpenTurn turn(clock);
  lanes::Turn lingering = turn_with({.slice = seconds(60)});
  lingering.envelope.lingers = milliseconds(20);
  turn.begin(lingering);
  EXPECT_EQ(turn.lingers(), milliseconds(20));
  clock.advance(milliseconds(3));
  EXPECT_EQ(turn.idle(), milliseconds(3));
  EXPECT_FALSE(turn.has_lingered());
  EXPECT_EQ(turn.looks_again(/*busy=*/false), milliseconds(17));
  EXPECT_EQ(turn.looks_again(/*busy=*/true), milliseconds(20));
  turn.count_iteration(IterationKind::counted);
  EXPECT_EQ(turn.idle(), Duration());
  clock.advance(milliseconds(21));
  EXPECT_EQ(turn.idle(), milliseconds(21));
  EXPECT_TRUE(turn.has_lingered());
}

TEST(OpenTurn, ItsReportHasWhatWasDoneInItAlone) {
  ManualClock clock;
  OpenTurn turn(clock);
  turn.begin(turn_with({}));
  turn.count_iteration(IterationKind::counted);
  turn.count_iteration(IterationKind::counted);
  turn.count_time(IterationKind::counted, milliseconds(4));
  turn.count_time(IterationKind::counted, milliseconds(1));
  turn.end_soon();
  EXPECT_TRUE(turn.is_to_end());
  const lanes::TurnEnded first = turn.end(lanes::TurnEnd::idle, /*more_ready=*/true, mib(3));
  EXPECT_EQ(first.turn, TurnId(7));
  EXPECT_EQ(first.end, lanes::TurnEnd::budget) << "more is ready, so the lane is not idle";
  EXPECT_EQ(first.iterations, 2U);
  EXPECT_EQ(first.busy, milliseconds(5));
  EXPECT_TRUE(first.more_ready);
  EXPECT_EQ(first.ephemeral, mib(3));
  EXPECT_FALSE(turn.is_open());
  EXPECT_FALSE(turn.is_to_end());

  turn.begin(turn_with({}));
  const lanes::TurnEnded second = turn.end(lanes::TurnEnd::failed, /*more_ready=*/true, Bytes());
  EXPECT_EQ(second.end, lanes::TurnEnd::failed);
  EXPECT_EQ(second.iterations, 0U);
  EXPECT_EQ(second.busy, Duration());
}

TEST(OpenTurn, TellsApartWhatCountsAndWhatIsMeasured) {
  ManualClock clock;
  OpenTurn turn(clock);
  turn.begin(turn_with({}));
  const auto done = [&](IterationKind kind, int64_t ms) {
    turn.count_iteration(kind);
    turn.count_time(kind, milliseconds(ms));
  };
  done(IterationKind::probe, 50);
  done(IterationKind::counted, 3);
  done(IterationKind::uncounted, 1);
  done(IterationKind::counted, 5);
  EXPECT_EQ(turn.measured().count, 2U);
  EXPECT_EQ(turn.measured().busy, milliseconds(8));
  const lanes::TurnEnded ended = turn.end(lanes::TurnEnd::idle, false, Bytes());
  EXPECT_EQ(ended.iterations, 4U);
  EXPECT_EQ(ended.busy, milliseconds(59));
  EXPECT_EQ(ended.uncounted.count, 1U);
  EXPECT_EQ(ended.uncounted.busy, milliseconds(1));
  EXPECT_EQ(ended.probes.count, 1U);
  EXPECT_EQ(ended.probes.busy, milliseconds(50));
}

TEST(OpenTurnDeathTest, ALaneHasOneTurnAtATime) {
  ManualClock clock;
  OpenTurn turn(clock);
  turn.begin(turn_with({}));
  EXPECT_DEATH(turn.begin(turn_with({})), "one turn at a time");
}

}  // namespace
}  // namespace laneway::service
