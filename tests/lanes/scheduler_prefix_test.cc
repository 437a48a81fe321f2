// What stays of an image that leaves: as much as was wished for and the room allows; it is in the
// ledger, comes back around it or copied from it, and is given up when somebody needs the room, in
// order, and not in vain. And that a core made from a report knows of it, and believes nothing.
#include <gtest/gtest.h>

#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class PrefixTest : public SchedulerTest {
 protected:
  PrefixTest() { store_ = units(400); }
  void idle(uint64_t id, int64_t persistent, int64_t ephemeral = 10) {
    offer(id, persistent, ephemeral);
    place(id);
  }
  void wish(uint64_t id, int64_t bytes) { send(PrefixWanted{JobId(id), units(bytes)}); }
  std::vector<Action> unload(uint64_t id) {
    return send(ResidencyWanted{JobId(id), Residency::unload});
  }
  std::vector<Action> left(uint64_t id) { return send(ImageLeft{JobId(id)}); }
  // In the pool, wished for, and out of it again.
  void stays(uint64_t id, int64_t persistent, int64_t prefix) {
    idle(id, persistent);
    wish(id, prefix);
    unload(id);
    left(id);
  }
  Bytes claimed() const { return scheduler_->pool().claimed(); }
  static ImagePrefix range(int64_t offset, int64_t size) { return {units(offset), units(size)}; }
  // Out of the pool but for the prefix.
  static ReportedJob reported(uint64_t id, int64_t persistent, const ImagePrefix& prefix) {
    ReportedJob job = away_at(id, persistent, {Tier::store, units(static_cast<int64_t>(id) * 40)});
    job.image.prefix = prefix;
    job.prefix_wanted = prefix.size;
    return job;
  }
  // Of jobs 1, 2 and 3, which ran in this order: 20 of each stay.
  void three_stay() {
    make(100, 8);
    for (const uint64_t id : {1, 2, 3}) {
      stays(id, 30, 20);
      now_ = now_ + seconds(1);
    }
  }
};

TEST_F(PrefixTest, StaysInTheLedgerAndTheImageGrowsAroundIt) {
  make(100, 4);
  idle(1, 60);
  wish(1, 20);
  const auto evicted = unload(1);
  ASSERT_EQ(of<EvictImage>(evicted).size(), 1u);
  EXPECT_EQ(of<EvictImage>(evicted).front().keep, units(20));
  left(1);
  EXPECT_EQ(job(1).state, JobState::away);
  EXPECT_EQ(job(1).pool_bytes, units(20));
  EXPECT_EQ(claimed(), units(20));
  EXPECT_EQ(scheduler_->pool().ledger().revocable(memory::Revocation::on_demand), units(20));
  const auto back = ready(1);
  ASSERT_EQ(of<PlaceImage>(back).size(), 1u);
  EXPECT_EQ(of<PlaceImage>(back).front().offset, Bytes());
  EXPECT_EQ(of<PlaceImage>(back).front().prefix, range(0, 20));
  EXPECT_EQ(claimed(), units(60 + 10)) << "it is a part of the image again";
  EXPECT_EQ(scheduler_->pool().ledger().revocable(memory::Revocation::on_demand), Bytes());
}

TEST_F(PrefixTest, IsCopiedFromARangeOfItsOwnWhereTheImageCannotGrow) {
  make(100, 4);
  stays(1, 30, 15);
  idle(2, 30);  // behind the prefix
  send(ResidencyWanted{JobId(2), Residency::pin});
  const auto back = ready(1);
  ASSERT_EQ(of<PlaceImage>(back).size(), 1u);
  EXPECT_EQ(of<PlaceImage>(back).front().offset, units(45));
  EXPECT_EQ(of<PlaceImage>(back).front().prefix, range(0, 15));
  EXPECT_EQ(claimed(), units(30 + 10 + 30 + 10 + 15)) << "both ranges";
  send(ImagePlaced{JobId(1), false});
  EXPECT_EQ(claimed(), units(95)) << "it is still read";
  offer(3, 10, 5);
  EXPECT_EQ(job(3).state, JobState::waiting) << "so nobody gets it";
  const auto whole = send(ImagePlaced{JobId(1), true});
  EXPECT_EQ(of<PlaceImage>(whole).at(0).offset, Bytes()) << "now somebody does";
}

TEST_F(PrefixTest, IsGivenUpWhereItsOwnImageFindsNoRoomBesideIt) {
  make(100, 4);
  stays(1, 50, 10);
  idle(2, 30);  // 10 … 40
  const auto back = ready(1);
  ASSERT_EQ(of<PlaceImage>(back).size(), 1u);
  EXPECT_FALSE(of<PlaceImage>(back).front().prefix.exists());
  ASSERT_TRUE(std::holds_alternative<DropPrefix>(back.front())) << "before anybody gets its range";
  EXPECT_EQ(claimed(), units(50 + 10 + 30 + 10));
}

TEST_F(PrefixTest, IsGivenUpForOthersWhoseJobRanLongestAgoFirstAndNoMoreThanAreNeeded) {
  three_stay();
  EXPECT_EQ(claimed(), units(60));
  const auto offered = offer(4, 20, 30);  // 40 are free in one piece
  ASSERT_EQ(of<DropPrefix>(offered).size(), 1u);
  EXPECT_EQ(of<DropPrefix>(offered).front().job, JobId(1));
  ASSERT_EQ(of<PlaceImage>(offered).size(), 1u);
  EXPECT_EQ(job(1).pool_bytes, Bytes());
  EXPECT_EQ(job(2).pool_bytes, units(20));
}

TEST_F(PrefixTest, TheOnesThatTurnOutNotToBeNeededStay) {
  three_stay();
  // 50 in one piece: only with the last one's, and then with nobody else's.
  const auto offered = offer(4, 50, 10);
  ASSERT_EQ(of<DropPrefix>(offered).size(), 1u);
  EXPECT_EQ(of<DropPrefix>(offered).front().job, JobId(3));
  EXPECT_EQ(of<PlaceImage>(offered).at(0).offset, units(40));
}

TEST_F(PrefixTest, IsNotGivenUpInVain) {
  make(100, 8);
  stays(1, 30, 20);
  idle(2, 30);
  send(ResidencyWanted{JobId(2), Residency::pin});
  EXPECT_TRUE(of<DropPrefix>(offer(3, 60, 10)).empty()) << "it would not fit without it either";
  EXPECT_EQ(job(1).pool_bytes, units(20));
}

TEST_F(PrefixTest, IsGivenUpWhereAnImageCanMoveThen) {
  make(100, 8);
  stays(1, 30, 20);
  idle(2, 30);  // 20 … 50
  send(ResidencyWanted{JobId(2), Residency::pin});
  const auto offered = offer(3, 50, 10);
  EXPECT_EQ(of<DropPrefix>(offered).size(), 1u);
  ASSERT_EQ(of<MoveImage>(offered).size(), 1u);
  EXPECT_EQ(of<PlaceImage>(send(ImagePlaced{JobId(2)})).size(), 1u);
}

TEST_F(PrefixTest, IsGivenUpForALaneThatMustGrow) {
  make(100, 8);
  const TurnId turn = of<GrantTurn>(start(2, 20, 10)).at(0).turn.id;
  stays(1, 50, 40);  // between image and region
  const auto grown = end_turn(turn, TurnEnd::out_of_lane, true, units(60));
  EXPECT_EQ(of<DropPrefix>(grown).size(), 1u);
  EXPECT_EQ(of<GrantTurn>(grown).size(), 1u) << "in the same event";
}

TEST_F(PrefixTest, IsGivenUpWhereARegionMustSlideBesides) {
  for (const bool turn_is_open : {false, true}) {
    make(100, 8);
    idle(1, 10);
    turn_is_open ? (void)start(2, 10, 10) : idle(2, 10);
    send(JobEnded{JobId(1)});  // above the region of the other one
    stays(3, 30, 20);          // 20 … 40; below that region are 60 without it
    const auto offered = offer(4, 45, 20);
    EXPECT_EQ(of<DropPrefix>(offered).size(), 1u);
    EXPECT_EQ(of<RecallTurn>(offered).size(), turn_is_open ? 1u : 0u);
    EXPECT_TRUE(of<EvictImage>(offered).empty()) << "nobody leaves for it";
    const auto placed = turn_is_open ? end_turn(TurnId(1), TurnEnd::idle, false) : offered;
    ASSERT_EQ(of<PlaceImage>(placed).size(), 1u) << turn_is_open;
    EXPECT_EQ(of<PlaceImage>(placed).front().offset, units(20));
  }
}

TEST_F(PrefixTest, IsGivenUpWhereItsOwnImageBesideItWouldKeepTheLaneFromGrowing) {
  make(100, 1);
  idle(3, 15);
  idle(1, 20, 50);
  wish(1, 10);
  unload(1);
  left(1);      // 15 … 25 stay
  idle(2, 12);  // 25 … 37
  send(JobEnded{JobId(3)});
  const auto back = ready(1);
  ASSERT_EQ(of<PlaceImage>(back).size(), 1u) << "at 37 it would end above 50";
  EXPECT_EQ(of<PlaceImage>(back).front().offset, Bytes());
  EXPECT_EQ(of<DropPrefix>(back).size(), 1u);
}

TEST_F(PrefixTest, OfImagesThatLeaveForOthersOnlyWhatTheRoomAllowsStays) {
  make(100, 8);
  idle(1, 60);
  wish(1, 30);
  const auto small = offer(2, 40, 10);
  ASSERT_EQ(of<EvictImage>(small).size(), 1u);
  EXPECT_EQ(of<EvictImage>(small).front().keep, units(30));
  EXPECT_EQ(of<PlaceImage>(left(1)).size(), 1u);
  send(JobEnded{JobId(2)});
  place(2);
  ready(1);
  place(1);
  now_ = now_ + seconds(1);
  end_turn(TurnId(1), TurnEnd::idle, false);
  now_ = now_ + seconds(1);
  const auto large = offer(3, 75, 10);
  ASSERT_EQ(of<EvictImage>(large).size(), 1u);
  EXPECT_EQ(of<EvictImage>(large).front().keep, units(15)) << "a half";
}

TEST_F(PrefixTest, NeverAllOfAnImageStaysAndNothingAgainstAWish) {
  make(100, 4);
  idle(1, 20);
  wish(1, 500);
  EXPECT_EQ(of<EvictImage>(unload(1)).at(0).keep, units(19));
  left(1);
  ready(1);
  place(1);
  end_turn(TurnId(1), TurnEnd::idle, false);
  wish(1, 0);
  EXPECT_EQ(of<EvictImage>(unload(1)).at(0).keep, Bytes());
  send(PrefixWanted{JobId(1), Bytes(-5)});
  send(PrefixWanted{JobId(77), units(1)});
}

TEST_F(PrefixTest, EndsWithItsJobAndWithASmallerPool) {
  make(100, 4);
  stays(1, 40, 30);
  stays(2, 40, 30);
  EXPECT_EQ(of<DropImage>(send(JobEnded{JobId(1)})).size(), 1u);
  EXPECT_EQ(claimed(), units(30));
  EXPECT_EQ(of<DropPrefix>(send(CapacityChanged{units(50)})).size(), 1u);
  EXPECT_EQ(scheduler_->pool().capacity(), units(50));
  EXPECT_EQ(claimed(), Bytes());
}

TEST_F(PrefixTest, OfAJobThatEndsWhileItsImageComesIsFree) {
  make(100, 4);
  stays(1, 30, 10);
  idle(2, 30);
  ready(1);
  send(ImagePlaced{JobId(1), false});
  send(JobEnded{JobId(1), true});
  for (const JobStatus& one : scheduler_->snapshot().jobs) {
    if (one.id != JobId(1)) continue;
    end_turn(TurnId(1), TurnEnd::idle, false);  // its turn was open
  }
  EXPECT_EQ(claimed(), units(30 + 10));
}

TEST_F(PrefixTest, EndsWithTheWorkerWhoAloneKnewOfIt) {
  make(100, 4);
  stays(1, 30, 10);
  send(WorkerLost{});
  EXPECT_EQ(claimed(), Bytes());
  const auto back = ready(1);
  ASSERT_EQ(of<PlaceImage>(back).size(), 1u);
  EXPECT_FALSE(of<PlaceImage>(back).front().prefix.exists());
}

TEST_F(PrefixTest, ACoreThatTakesOverHearsOfAllThreeKinds) {
  make(100, 4);
  ReportedJob arriving = in_pool(reported(2, 20, range(10, 5)), 20);
  arriving.image.state = ImageState::arriving;
  ReportedJob leaving = in_pool(reported(3, 30, range(40, 15)), 40);
  leaving.image.state = ImageState::leaving;
  restore({reported(1, 30, range(0, 10)), arriving, leaving}, true);
  EXPECT_EQ(job(1).pool_bytes, units(10));
  EXPECT_EQ(claimed(), units(10 + 5 + 20 + 30 + 10));
  send(ImagePlaced{JobId(2), true});
  EXPECT_EQ(claimed(), units(10 + 20 + 30 + 10));
  left(3);
  EXPECT_EQ(job(3).pool_bytes, units(15));
  EXPECT_EQ(claimed(), units(10 + 20 + 15 + 10));
}

TEST_F(PrefixTest, ReportsThatContradictThemselvesAreNotBelieved) {
  make(100, 4);
  // Of the same range twice, of all of an image, and outside of the pool: forgotten.
  auto actions = restore({reported(1, 30, range(0, 10)), reported(2, 30, range(5, 10)),
                          reported(3, 30, range(40, 30)), reported(4, 30, range(95, 10)),
                          reported(5, 30, {Bytes(-64), units(2)})});
  EXPECT_EQ(of<DropPrefix>(actions).size(), 4u);
  EXPECT_EQ(claimed(), units(10));
  EXPECT_EQ(job(2).state, JobState::away) << "the image lies outside, as before";
  // Of an image that is whole, or in the way of it: refused.
  make(100, 4);
  ReportedJob overlaps = in_pool(reported(2, 20, range(25, 5)), 20);
  overlaps.image.state = ImageState::arriving;
  actions = restore({in_pool(reported(1, 20, range(50, 5)), 0), overlaps}, true);
  EXPECT_EQ(of<RefuseJob>(actions).size(), 2u);
  EXPECT_EQ(claimed(), Bytes());
}

}  // namespace
}  // namespace laneway::lanes
