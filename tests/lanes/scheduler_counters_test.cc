// The core counts what it does: turns, images that leave and come back by tier, the bytes that are
// copied for it, refusals by their reason; and of each job when its iterations began and were last.
#include <gtest/gtest.h>

#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class CountersTest : public SchedulerTest {
 protected:
  CountersTest() { store_ = units(200); }
  Counters counters() const { return scheduler_->snapshot().counters; }
  uint64_t refused(ReasonCode code) const {
    return counters().refusals.at(static_cast<size_t>(code));
  }
};

TEST_F(CountersTest, ImagesThatLeaveAndComeBackAreCountedWithTheirBytes) {
  make(100, 4);
  offer(1, 60, 10);
  place(1);
  EXPECT_EQ(counters().moved_in, units(60)) << "first bytes";
  offer(2, 60, 10);
  EXPECT_EQ(counters().evictions.store, 0u) << "it is still leaving";
  send(ImageLeft{JobId(1)});
  place(2);
  EXPECT_EQ(counters().evictions.store, 1u);
  EXPECT_EQ(counters().moved_out, units(60));
  EXPECT_EQ(counters().returns.store, 0u);
  ready(1);
  send(ImageLeft{JobId(2)});
  place(1);
  EXPECT_EQ(counters().evictions.store, 2u);
  EXPECT_EQ(counters().evictions.spill, 0u);
  EXPECT_EQ(counters().returns.store, 1u);
  EXPECT_EQ(counters().moved_in, units(180));
  EXPECT_EQ(counters().turns, 1u);
}

TEST_F(CountersTest, AnImageWhoseCopyIsWholeLeavesWithoutACopy) {
  make(100, 4);
  restore({away_at(1, 40, {Tier::store, units(0)})});
  ready(1);
  const auto turn = of<GrantTurn>(place(1)).at(0).turn.id;
  end_turn(turn, TurnEnd::idle, false);
  send(ResidencyWanted{JobId(1), Residency::unload});
  send(ImageLeft{JobId(1)});
  EXPECT_EQ(counters().evictions.store, 1u);
  EXPECT_EQ(counters().moved_out, Bytes());
  EXPECT_EQ(counters().returns.store, 1u);
}

TEST_F(CountersTest, ACopyThatFailedIsNoEviction) {
  make(100, 4);
  offer(1, 60, 10);
  place(1);
  offer(2, 60, 10);
  send(CopyFailed{JobId(1)});
  EXPECT_EQ(counters().evictions.store, 0u);
  EXPECT_EQ(counters().moved_out, Bytes());
}

TEST_F(CountersTest, RefusalsAreCountedByTheirReason) {
  make(100, 4);
  offer(1, 200, 10);
  offer(2, 90, 20);
  EXPECT_EQ(refused(ReasonCode::larger_than_pool), 2u);
  EXPECT_EQ(refused(ReasonCode::too_many_jobs), 0u);
}

TEST_F(CountersTest, AJobsFirstAndLastIterationHaveTheirTimes) {
  make(100, 1);
  const TurnId first = of<GrantTurn>(start(1, 20, 10)).at(0).turn.id;
  const TimePoint granted = now_;
  EXPECT_FALSE(job(1).first_iteration);
  end_turn(first, TurnEnd::idle, false, Bytes(0), /*iterations=*/0);
  EXPECT_FALSE(job(1).last_iteration) << "it did none";
  const TurnId second = of<GrantTurn>(ready(1)).at(0).turn.id;
  const TimePoint began = now_;
  end_turn(second, TurnEnd::idle, false);
  EXPECT_GT(began, granted);
  EXPECT_EQ(job(1).first_iteration, began);
  EXPECT_EQ(job(1).last_iteration, now_);
  const TurnId third = of<GrantTurn>(ready(1)).at(0).turn.id;
  end_turn(third, TurnEnd::idle, false);
  EXPECT_EQ(job(1).first_iteration, began);
  EXPECT_EQ(job(1).last_iteration, now_);
}

TEST_F(CountersTest, OfAJobThatRanUnderAnotherCoreTheFirstTimeIsNotKnown) {
  make(100, 4);
  ReportedJob known = in_pool(away_at(1, 40, {}), 0);
  known.iterations = 5;
  restore({known}, /*with_lane=*/true);
  const TurnId turn = of<GrantTurn>(ready(1)).at(0).turn.id;
  end_turn(turn, TurnEnd::idle, false);
  EXPECT_FALSE(job(1).first_iteration);
  EXPECT_EQ(job(1).last_iteration, now_);
}

}  // namespace
}  // namespace laneway::lanes
