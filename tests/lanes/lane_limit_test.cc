#include "lanes/state/lane_limit.h"

#include <gtest/gtest.h>

#include <functional>

namespace laneway::lanes {
namespace {

// Lanes whose jobs take 10 ms for an iteration alone, in turns of 5 iterations or of count_, and as
// many times as long as slow_by_ says beside each other.
class LaneLimitTest : public ::testing::Test {
 protected:
  static constexpr Duration kIteration = milliseconds(10);

  void make(uint32_t first) {
    limit_ = std::make_unique<LaneLimit>(LaneLimitRules{.measured = true, .first = first}, 64);
  }
  LaneLimit::Load load() const { return {.busy = busy_, .more = more_}; }
  void until_due() {
    limit_->contended(now_);
    ASSERT_NE(limit_->next_wakeup(), TimePoint::never());
    now_ = std::max(now_, limit_->next_wakeup());
    limit_->look_again(now_, load());
  }
  // Lanes open as the limit allows while jobs wait, each in one of `jobs_` lanes at most.
  void open() {
    while (more_ && std::popcount(busy_) < static_cast<int>(std::min(limit_->lanes(), jobs_))) {
      busy_ |= busy_ + 1;
    }
    more_ = std::popcount(busy_) < static_cast<int>(jobs_);
  }
  // One turn of each lane, in as many at a time as the level says.
  void round() {
    const uint32_t level = limit_->level();
    for (LaneSet left = busy_; left != 0 && limit_->level() == level; left &= left - 1) {
      const LaneId lane(static_cast<uint64_t>(std::countr_zero(left)) + 1);
      limit_->turn_began(lane);
      Duration took = Duration(kIteration.ns() * count_ * slow_by_(level) / 100);
      if (++turns_ == disturbed_) took = took * 8;
      if (level == 3 && turns_ % 5 >= 3) took = took * share_;
      now_ = now_ + Duration(took.ns() / level);
      if ((silent_ & set_of(lane)) == 0) {
        limit_->tell(lane, JobId(lane.value()), kIteration,
                     {.count = static_cast<uint64_t>(count_), .busy = took});
      }
      limit_->turn_ended(now_, more_);
      open();
    }
  }
  void try_it() {
    until_due();
    for (int rounds = 0; rounds < 1000 && limit_->trying(); ++rounds) round();
    EXPECT_FALSE(limit_->trying());
  }

  std::unique_ptr<LaneLimit> limit_;
  LaneSet busy_ = 1;
  LaneSet silent_ = 0;
  bool more_ = false;
  uint32_t jobs_ = 0;  // that could have a lane each
  int64_t count_ = 5;
  int turns_ = 0;
  int disturbed_ = 0;  // this turn takes 8 times as long
  int64_t share_ = 1;  // at level 3, two of five turns take so many times as long
  std::function<int64_t(uint32_t)> slow_by_ = [](uint32_t) { return 100; };  // in hundredths
  TimePoint now_;
};

TEST_F(LaneLimitTest, ADeviceThatIsFullByOneJobHasOneLane) {
  make(4);
  busy_ = 0b1111;
  slow_by_ = [](uint32_t level) { return 100 * level; };
  try_it();
  EXPECT_EQ(limit_->lanes(), 1u);
}

TEST_F(LaneLimitTest, OneTurnThatTheMachineDisturbedDecidesNothing) {
  // The first turns of each lane tell what is alone: were it longer, two lanes would seem to pay.
  for (const bool full : {true, false}) {
    for (disturbed_ = 1; disturbed_ <= 20; ++disturbed_) {
      make(2);
      busy_ = 0b11;
      count_ = 2;
      turns_ = 0;
      slow_by_ = [full](uint32_t level) { return full ? 100 * level : 100; };
      try_it();
      EXPECT_EQ(limit_->lanes(), full ? 1u : 2u) << "turn " << disturbed_;
    }
  }
}

TEST_F(LaneLimitTest, WhereSomeTurnsHaveAProcessorToThemselvesAllTurnsCount) {
  // Of three lanes on two processors the median turn is as fast as alone.
  make(3);
  busy_ = 0b111;
  count_ = 1;  // several turns of each, so that there is a median
  share_ = 4;
  try_it();
  EXPECT_EQ(limit_->lanes(), 2u);
}

TEST_F(LaneLimitTest, LanesThatPayStayAndWhatIsNotKnownIsAsBefore) {
  make(4);
  busy_ = 0b11;
  try_it();
  EXPECT_EQ(limit_->lanes(), 4u);
}

TEST_F(LaneLimitTest, OfSeveralAsManyStayAsDoMore) {
  make(64);
  busy_ = 0xff;
  slow_by_ = [](uint32_t level) { return level <= 3 ? 100 : 34 * level; };
  try_it();
  EXPECT_EQ(limit_->lanes(), 3u);
}

TEST_F(LaneLimitTest, FurtherLanesOpenWhileJobsWaitAndLanesPay) {
  make(1);
  jobs_ = 20;
  more_ = true;
  slow_by_ = [](uint32_t level) { return level <= 6 ? 100 : 17 * level; };
  try_it();
  EXPECT_EQ(limit_->lanes(), 6u);
}

TEST_F(LaneLimitTest, AMarginIsAskedForALaneMore) {
  make(1);
  jobs_ = 20;
  more_ = true;
  slow_by_ = [](uint32_t level) { return level == 1 ? 100 : 192; };  // 1.04 of one lane
  try_it();
  EXPECT_EQ(limit_->lanes(), 1u);
  slow_by_ = [](uint32_t level) { return level == 1 ? 100 : level == 2 ? 188 : 400; };
  busy_ = 1;
  more_ = true;
  try_it();
  EXPECT_EQ(limit_->lanes(), 2u) << "1.06 of one lane";
}

TEST_F(LaneLimitTest, WhereNoLaneCanBeOpenedAllStaysAsItWas) {
  make(1);
  jobs_ = 1;
  until_due();
  EXPECT_FALSE(limit_->trying()) << "one lane, and nobody waits";
  more_ = true;
  until_due();
  ASSERT_TRUE(limit_->trying());
  EXPECT_EQ(limit_->lanes(), 2u);
  more_ = false;
  for (int rounds = 0; rounds < 20 && limit_->trying(); ++rounds) round();
  EXPECT_FALSE(limit_->trying());
  EXPECT_EQ(limit_->lanes(), 1u);
}

TEST_F(LaneLimitTest, ALaneThatSaysNothingIsLeftOut) {
  make(4);
  busy_ = 0b1111;
  silent_ = 0b1000;
  slow_by_ = [](uint32_t level) { return 100 * level; };
  try_it();
  EXPECT_EQ(limit_->lanes(), 1u) << "by the other three";
  silent_ = 0b1110;
  make(4);
  try_it();
  EXPECT_EQ(limit_->lanes(), 4u) << "of one lane nothing follows";
}

TEST_F(LaneLimitTest, ALaneWithNothingMoreToDoIsLeftOut) {
  make(4);
  busy_ = 0b11;
  until_due();
  round();
  busy_ = 0b01;
  now_ = limit_->next_wakeup();
  limit_->look_again(now_, load());  // both had a turn since
  EXPECT_TRUE(limit_->trying());
  now_ = limit_->next_wakeup();
  limit_->look_again(now_, load());
  EXPECT_FALSE(limit_->trying());
  EXPECT_EQ(limit_->lanes(), 4u);
}

TEST_F(LaneLimitTest, TrialsGetRarerWhileNothingChangesAndTakeASmallPartOfTheTime) {
  make(2);
  busy_ = 0b11;
  Duration pause;
  for (int i = 0; i < 4; ++i) {
    try_it();
    limit_->contended(now_);
    const Duration next = limit_->next_wakeup() - now_;
    EXPECT_GE(next, seconds(30));
    EXPECT_GT(next, pause);
    pause = next;
  }
  limit_->jobs_changed(now_);
  EXPECT_GE(limit_->next_wakeup(), now_ + seconds(1));
  EXPECT_LE(limit_->next_wakeup(), now_ + seconds(20)) << "of another mix nothing is known";
  // Long iterations make trials long, and rare.
  slow_by_ = [](uint32_t) { return 1000; };
  now_ = limit_->next_wakeup();
  const TimePoint begin = now_;
  try_it();
  limit_->contended(now_);
  EXPECT_GE(limit_->next_wakeup() - now_, (now_ - begin) * 20);
}

TEST_F(LaneLimitTest, WhatIsNotWantedLimitsNothingAndIsNotForgotten) {
  make(4);
  busy_ = 0b1111;
  slow_by_ = [](uint32_t level) { return 100 * level; };
  try_it();
  limit_->set_wanted(now_, false);
  EXPECT_EQ(limit_->lanes(), 64u);
  EXPECT_EQ(limit_->next_wakeup(), TimePoint::never());
  limit_->contended(now_);
  EXPECT_EQ(limit_->next_wakeup(), TimePoint::never());
  limit_->set_wanted(now_, true);
  EXPECT_EQ(limit_->lanes(), 1u);
  LaneLimit unmeasured({}, 64);
  EXPECT_EQ(unmeasured.lanes(), 64u);
}

}  // namespace
}  // namespace laneway::lanes
