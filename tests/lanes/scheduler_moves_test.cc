// Images move inside the pool where the bytes that somebody wants are free but not in one piece:
// which, where to, when; what happens when that fails, or when the job ends or is wanted elsewhere
// meanwhile; and that nobody moves in vain. Images lie at the low end, regions at the high one.
#include <gtest/gtest.h>

#include "policies/registry.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class MovesTest : public SchedulerTest {
 protected:
  // Without work.
  void idle(uint64_t id, int64_t persistent, int64_t ephemeral = 5) {
    offer(id, persistent, ephemeral);
    place(id);
  }
  // Job 2's image of 10 behind a hole of `hole`, its region of 5 at the end of the pool.
  void make_hole(int64_t hole, int64_t persistent = 10) {
    make(100, 4);
    idle(1, hole);
    idle(2, persistent);
    send(JobEnded{JobId(1)});
  }
  std::vector<Action> later(Duration by) {
    now_ = now_ + by;
    return send(TimerFired{});
  }
  static MoveImage the_move(const std::vector<Action>& actions) {
    const auto moves = of<MoveImage>(actions);
    EXPECT_EQ(moves.size(), 1u);
    return moves.empty() ? MoveImage{} : moves.front();
  }
};

TEST_F(MovesTest, AnImageInTheMiddleMakesRoomAndItsJobGoesOn) {
  make_hole(30);
  send(ResidencyWanted{JobId(2), Residency::pin});  // stays in the pool, wherever that is
  const auto asked = offer(3, 70, 5);
  const MoveImage move = the_move(asked);
  EXPECT_EQ(move.job, JobId(2));
  EXPECT_EQ(move.offset, units(0));
  EXPECT_EQ(move.size, units(10));
  EXPECT_TRUE(of<AdmitJob>(asked).empty()) << "both ranges are taken";
  EXPECT_EQ(job(2).state, JobState::moving);
  EXPECT_TRUE(of<GrantTurn>(ready(2)).empty());
  EXPECT_EQ(job(2).reason.code, ReasonCode::copy_under_way);
  const auto moved = place(2);
  ASSERT_EQ(of<PlaceImage>(moved).size(), 1u);
  EXPECT_EQ(of<PlaceImage>(moved)[0].offset, units(10));
  ASSERT_EQ(of<GrantTurn>(moved).size(), 1u);
  EXPECT_EQ(of<GrantTurn>(moved)[0].turn.job, JobId(2));
}

TEST_F(MovesTest, WhereTheHoleIsTooSmallItGoesToTheOtherSide) {
  make_hole(10, 20);
  const MoveImage move = the_move(offer(3, 68, 5));
  EXPECT_EQ(move.offset, units(70));
  EXPECT_EQ(of<PlaceImage>(place(2)).at(0).offset, units(0));
}

TEST_F(MovesTest, SeveralMoveOneAfterTheOther) {
  make(100, 8);
  for (const uint64_t id : {1, 2, 3}) idle(id, 10);
  idle(4, 20);
  send(JobEnded{JobId(1)});
  send(JobEnded{JobId(3)});
  const MoveImage first = the_move(offer(5, 58, 5));
  EXPECT_EQ(first.job, JobId(2));
  EXPECT_EQ(first.offset, units(0));
  const auto next = place(2);
  const MoveImage second = the_move(next);
  EXPECT_EQ(second.job, JobId(4));
  EXPECT_EQ(second.offset, units(10));
  EXPECT_TRUE(of<AdmitJob>(next).empty());
  EXPECT_EQ(of<AdmitJob>(place(4)).size(), 1u);
}

TEST_F(MovesTest, NobodyMovesInVain) {
  make_hole(30);
  EXPECT_TRUE(of<MoveImage>(offer(3, 86, 5)).empty()) << "there are not so many bytes";
  make_hole(10, 46);
  EXPECT_TRUE(of<MoveImage>(offer(3, 45, 5)).empty()) << "it has nowhere to go";
}

TEST_F(MovesTest, NotUnderAnOpenTurn) {
  make_hole(30);
  const TurnId turn = of<GrantTurn>(ready(2)).at(0).turn.id;
  const auto asked = offer(3, 70, 5);
  EXPECT_EQ(of<RecallTurn>(asked).size(), 1u);
  EXPECT_TRUE(of<MoveImage>(asked).empty());
  const auto ended = end_turn(turn, TurnEnd::budget, /*more_ready=*/true);
  EXPECT_EQ(the_move(ended).job, JobId(2));
  EXPECT_TRUE(of<GrantTurn>(ended).empty());
  EXPECT_EQ(of<GrantTurn>(place(2)).size(), 1u);
}

TEST_F(MovesTest, NotWhileItIsOnItsWayInAndAtOnceWhenItIsThere) {
  make(100, 4);
  idle(1, 30);
  offer(2, 10, 5);
  send(JobEnded{JobId(1)});
  EXPECT_TRUE(of<MoveImage>(offer(3, 70, 5)).empty());
  EXPECT_EQ(the_move(place(2)).job, JobId(2));
}

TEST_F(MovesTest, OneThatFailsIsNotTriedAgainAtOnce) {
  make_hole(30);
  offer(3, 70, 5);
  const auto failed = send(CopyFailed{JobId(2)});
  EXPECT_TRUE(of<MoveImage>(failed).empty());
  EXPECT_EQ(job(2).state, JobState::resident);
  EXPECT_EQ(of<GrantTurn>(ready(2)).size(), 1u);
  EXPECT_TRUE(of<RecallTurn>(later(seconds(9))).empty());
  EXPECT_EQ(of<RecallTurn>(later(seconds(1))).size(), 1u);
}

TEST_F(MovesTest, AJobThatEndsMeanwhileFreesBothRanges) {
  make_hole(30);
  offer(3, 90, 5);
  offer(4, 70, 5);
  send(JobEnded{JobId(3)});
  ASSERT_EQ(job(2).state, JobState::moving);
  const auto ended = send(JobEnded{JobId(2)});
  EXPECT_EQ(of<DropImage>(ended).size(), 1u);
  EXPECT_EQ(of<PlaceImage>(ended).at(0).offset, units(0));
  EXPECT_TRUE(place(2).empty()) << "of a job that is over";
}

TEST_F(MovesTest, OneThatIsWantedOutsideLeavesWhenItHasMoved) {
  store_ = units(100);
  make_hole(30);
  send(ResidencyWanted{JobId(2), Residency::pin});
  offer(3, 70, 5);
  send(ResidencyWanted{JobId(2), Residency::unpin});
  EXPECT_TRUE(of<EvictImage>(send(ResidencyWanted{JobId(2), Residency::unload})).empty());
  EXPECT_EQ(of<EvictImage>(place(2)).size(), 1u);
}

TEST_F(MovesTest, ThePoolShrinksOntoAHole) {
  make_hole(40, 20);
  const MoveImage move = the_move(send(CapacityChanged{units(50)}));
  EXPECT_LE(move.offset + move.size, units(50));
  EXPECT_EQ(scheduler_->pool().capacity(), units(100));
  place(2);
  EXPECT_EQ(scheduler_->pool().capacity(), units(50));
}

// The lane's turn is asked to end for another job; what this one lacks is its own.
TEST_F(MovesTest, ATurnThatEndsForAnotherJobHidesNobodysReason) {
  make(100, 1, 0, policies::make_policy("fifo:admit=fit").value());
  const auto running = of<GrantTurn>(start(1, 10, 20)).at(0).turn;  // region at 80 to 100
  idle(2, 30, 20);
  idle(3, 10, 20);
  send(JobEnded{JobId(2)});  // free: 10 to 40, 50 to 80
  const auto asked = offer(4, 5, 30);
  ASSERT_EQ(of<RecallTurn>(asked).size(), 1u) << "its region grows between two turns";
  EXPECT_EQ(of<RecallTurn>(asked)[0].turn, running.id);
  // 10 to 35 would do for its image; the region would have to reach from 48 on.
  const auto found = offer(5, 25, 52);
  ASSERT_EQ(of<MoveImage>(found).size(), 1u) << "its bytes are free, but in pieces";
  EXPECT_EQ(of<MoveImage>(found)[0].job, JobId(3));
  EXPECT_EQ(job(5).reason.code, ReasonCode::pool_fragmented);
}

}  // namespace
}  // namespace laneway::lanes
