// Who interrupts whom, event by event: what turns say of each other, held iterations, recalls that
// cannot wait, and what those who yield have a right to.
#include "lanes/core/scheduler.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "policies/registry.h"
#include "tests/lanes/first_come.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

constexpr Duration kLeastPatience = milliseconds(1);
constexpr Duration kAge = seconds(1);  // policies/common_rules.h

class Preemption : public SchedulerTest {
 protected:
  // An urgent job with work.
  std::vector<Action> start_urgent(uint64_t id, int64_t persistent, int64_t ephemeral,
                                   int32_t priority, uint64_t context_key = 0) {
    offer_urgent(id, persistent, ephemeral, priority, context_key);
    place(id);
    return ready(id);
  }
  // As in a service: with ageing.
  void make_lanes(uint32_t lanes) { make(100, lanes, 0, policies::make_policy("fifo").value()); }
  static Turn turn_of(const std::vector<Action>& actions) {
    return of<GrantTurn>(actions).at(0).turn;
  }
  void set_priority(uint64_t id, int32_t priority) {
    JobChanges changes;
    changes.given = static_cast<uint8_t>(JobOption::priority);
    changes.values.priority = priority;
    send(JobChanged{.job = JobId(id), .changes = changes});
  }
};

// First come, first served, but the lowest priority is the most urgent one.
class LowestIsUrgent final : public FirstCome {
 public:
  std::string_view name() const override { return "lowest"; }
  int64_t urgency(TimePoint /*now*/, const policies::View& /*view*/,
                  const policies::JobView& job) const override {
    return -int64_t{job.options.priority};
  }
};

TEST_F(Preemption, ATurnSaysWhichOpenOnesItInterruptsAndWhichInterruptIt) {
  make_lanes(4);
  const Turn first = turn_of(start(1, 10, 10));
  EXPECT_EQ(first.envelope.interrupts | first.envelope.yields_to, 0U) << "it is alone";
  const Turn urgent = turn_of(start_urgent(2, 10, 10, 5));
  EXPECT_EQ(urgent.envelope.interrupts, set_of(first.lane));
  EXPECT_EQ(urgent.envelope.yields_to, 0U);
  const Turn between = turn_of(start_urgent(3, 10, 10, 2));
  EXPECT_EQ(between.envelope.interrupts, set_of(first.lane));
  EXPECT_EQ(between.envelope.yields_to, set_of(urgent.lane));
}

// Turns that were all equally urgent are so no more.
TEST_F(Preemption, AnOpenTurnThatBecameMoreUrgentIsYieldedTo) {
  make_lanes(4);
  const Turn first = turn_of(start(1, 10, 10));
  const Turn second = turn_of(start(2, 10, 10));
  EXPECT_EQ(second.envelope.interrupts | second.envelope.yields_to, 0U);
  JobChanges changes;
  changes.values.priority = 5;
  changes.given = static_cast<uint8_t>(JobOption::priority);
  send(JobChanged{.job = JobId(1), .changes = changes});
  const Turn third = turn_of(start(3, 10, 10));
  EXPECT_EQ(third.envelope.yields_to, set_of(first.lane));
  EXPECT_EQ(third.envelope.interrupts, 0U);
}

TEST_F(Preemption, AHeldJobIsPausedForAsLongAsTheWorkerSays) {
  make_lanes(4);
  const Turn turn = turn_of(start(1, 10, 10));
  EXPECT_TRUE(send(TurnPaused{turn.id}).empty());
  EXPECT_EQ(job(1).state, JobState::paused);
  EXPECT_EQ(job(1).pauses, 1U);
  now_ = now_ + milliseconds(4);
  EXPECT_TRUE(send(TurnResumed{turn.id, milliseconds(3)}).empty());
  EXPECT_EQ(job(1).state, JobState::running);
  EXPECT_EQ(job(1).paused, milliseconds(3));
  end_turn(turn.id, TurnEnd::idle, false);
  EXPECT_EQ(job(1).state, JobState::resident);
  EXPECT_EQ(job(1).device_time, microseconds(10)) << "what the turn said";
}

TEST_F(Preemption, AHeldJobThatEndsIsRecalledAndItsWorkerMayBeLost) {
  make_lanes(4);
  const Turn turn = turn_of(start(1, 10, 10));
  send(TurnPaused{turn.id});
  EXPECT_EQ(of<RecallTurn>(send(JobEnded{JobId(1)})).size(), 1U);
  EXPECT_EQ(of<DropImage>(end_turn(turn.id, TurnEnd::idle, false)).size(), 1U);
  const Turn other = turn_of(start(2, 10, 10));
  send(TurnPaused{other.id});
  send(WorkerLost{});
  EXPECT_EQ(job(2).state, JobState::resident);
  EXPECT_TRUE(send(TurnResumed{other.id, milliseconds(1)}).empty()) << "of a worker that is gone";
}

TEST_F(Preemption, HeldTimeIsNoPartOfABoundedTurn) {
  make_lanes(1);
  const Turn first = turn_of(start(1, 10, 20));
  start(2, 10, 20);
  const Turn bounded = turn_of(end_turn(first.id, TurnEnd::budget, true));
  const TimePoint due = scheduler_->next_wakeup();
  send(TurnPaused{bounded.id});
  const TimePoint held_from = now_;
  EXPECT_EQ(scheduler_->next_wakeup(), TimePoint::never());
  now_ = now_ + seconds(1);
  send(TurnResumed{bounded.id, seconds(1)});
  EXPECT_EQ(scheduler_->next_wakeup(), due + (now_ - held_from));
}

TEST_F(Preemption, AnUrgentJobInTheLaneRecallsAtOnceAndIsNext) {
  make_lanes(1);
  const Turn first = turn_of(start(1, 10, 20));
  const auto recalls = of<RecallTurn>(start_urgent(2, 10, 20, 5));
  ASSERT_EQ(recalls.size(), 1U);
  EXPECT_EQ(recalls[0].turn, first.id);
  EXPECT_EQ(recalls[0].latest, kLeastPatience);
  const Turn next = turn_of(end_turn(first.id, TurnEnd::budget, true));
  EXPECT_EQ(next.job, JobId(2)) << "fifo alone would let the first one go on";
}

TEST_F(Preemption, ARivalOfTheSamePriorityWaitsForTheBoundary) {
  make_lanes(1);
  start(1, 10, 20);
  const auto recalls = of<RecallTurn>(start(2, 10, 20));
  ASSERT_EQ(recalls.size(), 1U);
  EXPECT_EQ(recalls[0].latest, kWhenever);
}

TEST_F(Preemption, WhoIsAskedToEndIsToldAgainWhenAMoreUrgentOneComes) {
  make_lanes(1);
  const Turn first = turn_of(start(1, 10, 20));
  EXPECT_EQ(of<RecallTurn>(start(2, 10, 20)).at(0).latest, kWhenever);
  const auto again = of<RecallTurn>(start_urgent(3, 10, 20, 5));
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].turn, first.id);
  EXPECT_LT(again[0].latest, kWhenever);
  EXPECT_TRUE(of<RecallTurn>(start_urgent(4, 10, 20, 6)).empty()) << "twice is enough";
}

TEST_F(Preemption, AJobThatBecameMoreUrgentInItsTurnIsNotInterrupted) {
  make_lanes(2);
  start(1, 10, 20);
  set_priority(1, 6);
  const Turn beside = turn_of(start_urgent(2, 10, 20, 5));
  EXPECT_EQ(beside.envelope.interrupts, 0U);
  EXPECT_EQ(beside.envelope.yields_to, set_of(LaneId(1)));
}

TEST_F(Preemption, APriorityThatFellInItsTurnLetsARivalInterrupt) {
  make_lanes(1);
  const Turn first = turn_of(start_urgent(1, 10, 20, 6));
  set_priority(1, 2);
  const auto recalls = of<RecallTurn>(start_urgent(2, 10, 20, 5));
  ASSERT_EQ(recalls.size(), 1U);
  EXPECT_EQ(recalls[0].turn, first.id);
  EXPECT_EQ(recalls[0].latest, kLeastPatience);
}

TEST_F(Preemption, AnotherPolicyIsAskedAboutTurnsThatAreOpen) {
  make_lanes(2);
  start_urgent(1, 10, 20, 6);
  scheduler_->set_policy(std::make_unique<LowestIsUrgent>());
  const Turn beside = turn_of(start_urgent(2, 10, 20, 5));
  EXPECT_EQ(beside.envelope.interrupts, set_of(LaneId(1)));
  EXPECT_EQ(beside.envelope.yields_to, 0U);
}

// How long it may still take: as long as whoever waits takes itself.
TEST_F(Preemption, AnIterationMayGoOnForAsLongAsTheUrgentOneTakes) {
  make_lanes(1);
  const Turn urgent = turn_of(start_urgent(1, 10, 20, 5));
  send(TurnEnded{.turn = urgent.id, .iterations = 2, .busy = milliseconds(14), .ephemeral = {}});
  start(2, 10, 20);
  const auto recalls = of<RecallTurn>(ready(1));
  ASSERT_EQ(recalls.size(), 1U);
  EXPECT_EQ(recalls[0].latest, milliseconds(7));
}

// An urgent job that always has work: whoever yields to it gets a turn by ageing, in which an
// iteration completes.
TEST_F(Preemption, WhoWaitsForLongBehindMoreUrgentOnesGetsATurn) {
  make_lanes(1);
  const Turn first = turn_of(start(1, 10, 20));
  start_urgent(2, 10, 20, 5);
  Turn turn = turn_of(end_turn(first.id, TurnEnd::budget, true));
  const TimePoint waits_from = now_;
  uint64_t turns = 0;
  while (turn.job == JobId(2)) {
    ASSERT_LT(++turns, 100U);
    now_ = now_ + milliseconds(50);
    turn = turn_of(end_turn(turn.id, TurnEnd::budget, true));
  }
  const Duration waited = now_ - waits_from;
  EXPECT_GE(waited, kAge);
  EXPECT_LT(waited, kAge + milliseconds(100));
  for (const RecallTurn& recall : of<RecallTurn>(ready(2))) {
    EXPECT_EQ(recall.latest, kWhenever) << "it is not interrupted in this turn";
  }
}

// The urgent job finds room only in the running one's lane, once that has grown.
TEST_F(Preemption, MemoryThatAnUrgentJobNeedsIsNotWaitedForAnyLonger) {
  make_lanes(1);
  const Turn turn = turn_of(start(1, 10, 20));
  const auto recalls = of<RecallTurn>(offer_urgent(2, 10, 40, 5));
  ASSERT_EQ(recalls.size(), 1U);
  EXPECT_EQ(recalls[0].turn, turn.id);
  EXPECT_EQ(recalls[0].latest, kLeastPatience);
}

TEST_F(Preemption, TurnsOfAnotherNumericContextEndForAnUrgentJob) {
  make_lanes(4);
  const Turn turn = turn_of(start(1, 10, 10, /*context_key=*/1));
  const auto recalls = of<RecallTurn>(start_urgent(2, 10, 10, 5, /*context_key=*/2));
  ASSERT_FALSE(recalls.empty());
  EXPECT_EQ(recalls.back().turn, turn.id);
  EXPECT_EQ(recalls.back().latest, kLeastPatience);
  EXPECT_EQ(turn_of(end_turn(turn.id, TurnEnd::budget, true)).job, JobId(2));
}

}  // namespace
}  // namespace laneway::lanes
