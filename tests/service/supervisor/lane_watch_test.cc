// What is a hang and what is none, with a clock of the test's own.
#include "service/supervisor/lane_watch.h"

#include <gtest/gtest.h>

#include <memory>

namespace laneway::service {
namespace {

class LaneWatchTest : public ::testing::Test {
 protected:
  LaneNotes& notes(size_t lane) { return notes_of(*journal_, lane - 1); }
  void note(size_t lane, LaneDoing doing, uint64_t steps, uint32_t bound_ms = 0) {
    notes(lane).job.store(lane * 100);
    notes(lane).doing.store(static_cast<uint32_t>(doing));
    notes(lane).steps.store(steps);
    notes(lane).bound_ms.store(bound_ms);
  }
  // Looks as often as it must be asked, for so long; the first hang that it finds.
  std::optional<LaneWatch::Hang> look_for(Duration time) {
    for (const TimePoint end = now_ + time; now_ < end;) {
      now_ = now_ + times_.look;
      if (const auto hang = watch_.look(now_)) return hang;
    }
    return {};
  }

  const LaneWatch::Times times_{};
  const std::unique_ptr<JournalMemory> journal_ = std::make_unique<JournalMemory>();
  LaneWatch watch_{*journal_, times_};
  TimePoint now_{seconds(1000).ns()};
};

TEST_F(LaneWatchTest, ANodeBeyondItsBoundHangs) {
  note(2, LaneDoing::iterating, 5, 3'000);
  notes(2).graph.store(1);
  notes(2).node.store(31);
  EXPECT_FALSE(look_for(milliseconds(2'900)));
  const auto hang = look_for(seconds(1));
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->lane, LaneId(2));
  EXPECT_EQ(hang->job, JobId(200));
  EXPECT_EQ(hang->bound, seconds(3));
  EXPECT_EQ(notes(2).hung.load(), 1U);
  const std::string text = text_of(*hang);
  for (const char* said : {"lane 2", "job 200", "graph 1, node 31", "3.0 s"}) {
    EXPECT_NE(text.find(said), std::string::npos) << text;
  }
}

TEST_F(LaneWatchTest, ABoundIsAtLeastTwoSeconds) {
  note(1, LaneDoing::iterating, 5, 1);
  EXPECT_FALSE(look_for(milliseconds(1'900)));
  EXPECT_TRUE(look_for(seconds(1)));
}

TEST_F(LaneWatchTest, WhatIsNotMeasuredHasAMinute) {
  note(1, LaneDoing::iterating, 5);
  EXPECT_FALSE(look_for(seconds(59)));
  EXPECT_TRUE(look_for(seconds(3)));
}

TEST_F(LaneWatchTest, ALongIterationThatProgressesLives) {
  for (uint64_t node = 0; node < 40; ++node) {
    note(1, LaneDoing::iterating, node, 10);
    EXPECT_FALSE(look_for(milliseconds(1'500)));
  }
}

TEST_F(LaneWatchTest, WaitingForSomebodyIsNoHang) {
  note(1, LaneDoing::nothing, 5, 10);
  EXPECT_FALSE(look_for(seconds(600)));
  note(1, LaneDoing::iterating, 5, 10);
  EXPECT_FALSE(look_for(milliseconds(1'900))) << "its time begins when it does something";
  EXPECT_TRUE(look_for(seconds(1)));
}

TEST_F(LaneWatchTest, CopiesAndPlansHaveABoundOfTheirOwn) {
  for (const LaneDoing doing :
       {LaneDoing::copying, LaneDoing::planning, LaneDoing::snapshotting, LaneDoing::landing}) {
    note(1, doing, 5, 10);
    EXPECT_FALSE(look_for(seconds(59)));
    EXPECT_TRUE(look_for(seconds(3)));
    note(1, LaneDoing::nothing, 6);
    EXPECT_FALSE(look_for(seconds(1)));
  }
}

// A pool whose copies are slowed down (--copy-bandwidth) has lanes that copy for long.
TEST(LongestCopy, GrowsWithThePoolAndWithWhatSlowsItsCopiesDown) {
  EXPECT_LT(longest_copy(mib(16), 0), seconds(2));
  EXPECT_GE(longest_copy(gib(64), 0), seconds(64)) << "1 GiB a second is a slow machine";
  EXPECT_GE(longest_copy(mib(100), mib(1).count()), seconds(100));
  EXPECT_EQ(longest_copy(mib(100), gib(100).count()), longest_copy(mib(100), 0));
}

// The whole service was stopped and continued, or the machine had no time for it.
TEST_F(LaneWatchTest, AWatchThatWasLateBeginsAnew) {
  note(1, LaneDoing::iterating, 5, 10);
  EXPECT_FALSE(look_for(milliseconds(1'500)));
  now_ = now_ + seconds(3600);
  EXPECT_FALSE(look_for(milliseconds(1'900)));
  EXPECT_TRUE(look_for(seconds(1))) << "what hangs is found all the same";
}

TEST_F(LaneWatchTest, AnotherWorkerBeginsAnew) {
  note(1, LaneDoing::iterating, 5, 10);
  EXPECT_FALSE(look_for(milliseconds(1'900)));
  watch_.begin_worker();
  note(1, LaneDoing::iterating, 6, 10);
  EXPECT_FALSE(look_for(milliseconds(1'900)));
  EXPECT_TRUE(look_for(seconds(1)));
}

// A successor opens its lanes when the broker tells it, which may take longer than a bound.
TEST_F(LaneWatchTest, WhatADeadWorkerNotedIsNoHangOfItsSuccessor) {
  note(1, LaneDoing::iterating, 5, 10);
  watch_.begin_worker();
  EXPECT_FALSE(look_for(seconds(600)));
  note(1, LaneDoing::nothing, 5);
  EXPECT_FALSE(look_for(seconds(1)));
  note(1, LaneDoing::iterating, 5, 10);
  EXPECT_TRUE(look_for(seconds(4))) << "from its first note on, the lane is the successor's";
}

TEST_F(LaneWatchTest, PlacingAnImageHasABoundWithoutProgress) {
  note(kNoted, LaneDoing::copying, 5);
  EXPECT_FALSE(look_for(seconds(59)));
  notes(kNoted).steps.store(6);
  EXPECT_FALSE(look_for(seconds(59)));
  const auto hang = look_for(seconds(2));
  ASSERT_TRUE(hang);
  EXPECT_FALSE(hang->lane.valid());
  EXPECT_EQ(hang->job, JobId(100 * kNoted));
  EXPECT_EQ(notes(kNoted).hung.load(), 1U);
  EXPECT_EQ(text_of(*hang).substr(0, 50), "the thread that places images hangs: it copies for");
}

}  // namespace
}  // namespace laneway::service
