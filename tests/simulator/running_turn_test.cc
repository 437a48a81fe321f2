// A turn's progress in virtual time: against a naive count of iterations, one by one, over drawn
// turns; and at boundaries that are easily missed.
#include "simulator/running_turn.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/random.h"

namespace laneway::simulator {
namespace {

lanes::Turn turn_of(const lanes::TurnBudget& budget) {
  lanes::Turn turn;
  turn.id = TurnId(1);
  turn.lane = LaneId(1);
  turn.job = JobId(1);
  turn.envelope.budget = budget;
  return turn;
}

TimePoint at(int64_t ns) { return TimePoint(ns); }

TEST(RunningTurn, EndsWhereCountingItsIterationsOneByOneDoes) {
  const char* only = std::getenv("LANEWAY_SEED");
  const uint64_t first = only != nullptr ? std::strtoull(only, nullptr, 10) : 1;
  const uint64_t last = only != nullptr ? first : 500;
  for (uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("run again with LANEWAY_SEED=" + std::to_string(seed));
    Random random(seed);
    const int64_t iteration = random.between(1, 1000);
    const lanes::TurnBudget budget{.iterations = static_cast<uint64_t>(random.between(0, 40)),
                                   .slice = Duration(random.between(0, 20'000))};
    const auto queued = static_cast<uint64_t>(random.between(1, 60));
    const int64_t begins = random.between(0, 500);
    RunningTurn turn(turn_of(budget), Duration(iteration), at(begins));
    turn.set_working(at(begins), true);

    uint64_t count = 0;
    int64_t time = begins;
    do {
      ++count;
      time += iteration;
    } while (count < queued && (budget.iterations == 0 || count < budget.iterations) &&
             (budget.slice == Duration() || time - begins < budget.slice.ns()));
    ASSERT_EQ(turn.due(queued, false), at(time));
    // However often somebody looks in between.
    uint64_t ended = 0;
    for (int64_t look = begins; look < time; look += random.between(1, 3'000)) {
      ended += turn.advance(at(look));
      EXPECT_FALSE(turn.done() > 0 && turn.is_over(at(look), queued - ended));
      ASSERT_EQ(turn.due(queued - ended, false), at(time));
    }
    ended += turn.advance(at(time));
    EXPECT_EQ(ended, count);
    EXPECT_EQ(turn.busy(), Duration(time - begins));
    EXPECT_EQ(turn.part(), Duration());
    EXPECT_EQ(turn.is_over(at(time), queued - count), budget.is_bound());
  }
}

TEST(RunningTurn, ARecallEndsItAtTheEndOfTheIterationThatRuns) {
  RunningTurn turn(turn_of({}), Duration(100), at(0));
  turn.set_working(at(0), true);
  EXPECT_EQ(turn.due(UINT64_MAX, false), TimePoint::never());
  EXPECT_EQ(turn.advance(at(250)), 2u);
  turn.recall();
  EXPECT_FALSE(turn.is_over(at(250), UINT64_MAX));
  EXPECT_EQ(turn.due(UINT64_MAX, false), at(300));
  EXPECT_EQ(turn.advance(at(300)), 1u);
  EXPECT_TRUE(turn.is_over(at(300), UINT64_MAX));
  const lanes::TurnEnded ended = turn.end(at(300), true, Bytes(64));
  EXPECT_EQ(ended.iterations, 3u);
  EXPECT_EQ(ended.busy, Duration(300));
  EXPECT_EQ(ended.end, lanes::TurnEnd::budget);
  EXPECT_EQ(ended.idle, Duration());
}

TEST(RunningTurn, RecalledAtABoundaryItEndsThereButNotBeforeItsFirstIteration) {
  RunningTurn turn(turn_of({}), Duration(100), at(50));
  turn.set_working(at(0), true);
  turn.recall();
  EXPECT_FALSE(turn.is_over(at(0), 5));
  EXPECT_EQ(turn.due(5, false), at(150));

  RunningTurn other(turn_of({}), Duration(100), at(0));
  other.set_working(at(0), true);
  EXPECT_EQ(other.advance(at(200)), 2u);
  other.recall();
  EXPECT_TRUE(other.is_over(at(200), 5));
}

TEST(RunningTurn, WithNothingToRunOnlyOneWithABoundIsGivenBack) {
  RunningTurn open(turn_of({}), Duration(100), at(0));
  EXPECT_FALSE(open.is_over(at(10), 0));
  open.recall();
  EXPECT_TRUE(open.is_over(at(10), 0));
  EXPECT_EQ(open.end(at(10), false, Bytes()).end, lanes::TurnEnd::idle);
  RunningTurn bound(turn_of({.iterations = 4}), Duration(100), at(0));
  EXPECT_TRUE(bound.is_over(at(0), 0));
}

TEST(RunningTurn, SaysHowLongItsJobHadNothingToRun) {
  RunningTurn turn(turn_of({}), Duration(100), at(0));
  turn.set_working(at(0), true);
  EXPECT_EQ(turn.advance(at(100)), 1u);
  turn.set_working(at(100), false);
  EXPECT_EQ(turn.due(0, false), TimePoint::never());
  EXPECT_EQ(turn.advance(at(700)), 0u);
  EXPECT_EQ(turn.end(at(700), false, Bytes()).idle, Duration(600));
  EXPECT_EQ(turn.busy(), Duration(100));
}

TEST(RunningTurn, AtChangingSpeedsItsIterationsAreCountedAtTheirBoundaries) {
  RunningTurn turn(turn_of({.iterations = 3}), Duration(1'000'000), at(0));
  turn.set_working(at(0), true);
  turn.set_speed(1.0 / 3);
  EXPECT_EQ(turn.due(9, false), at(9'000'000));
  EXPECT_EQ(turn.advance(at(4'500'000)), 1u);
  turn.set_speed(0.7);
  const TimePoint due = turn.due(8, false);
  EXPECT_NEAR(static_cast<double>(due.ns()), 4'500'000 + 1'500'000 / 0.7, 2);
  EXPECT_EQ(turn.advance(due), 2u);
  EXPECT_TRUE(turn.is_over(due, 6));
}

}  // namespace
}  // namespace laneway::simulator
