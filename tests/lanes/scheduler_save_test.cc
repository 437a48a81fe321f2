// Images of jobs without work are copied out ahead of need: whose, when, how often; that work stops
// it; and that whoever was saved leaves for nothing.
#include <gtest/gtest.h>

#include <array>

#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class SaveTest : public SchedulerTest {
 protected:
  SaveTest() { store_ = units(200); }
  // Job 1 is away; jobs 2 and 3 are in the pool, without work.
  void crowd() {
    make(100, 4);
    for (const uint64_t id : {1, 2, 3}) {
      offer(id, 20, 5);
      place(id);
    }
    send(ResidencyWanted{JobId(1), Residency::unload});
    send(ImageLeft{JobId(1)});
  }
  std::vector<Action> later(Duration by) {
    now_ = now_ + by;
    return send(TimerFired{});
  }
  static std::vector<uint64_t> saved(const std::vector<Action>& actions) {
    std::vector<uint64_t> jobs;
    for (const SaveImage& save : of<SaveImage>(actions)) jobs.push_back(save.job.value());
    return jobs;
  }
  std::vector<Action> whole(uint64_t id) { return send(ImageSaved{JobId(id), true}); }
};

using Jobs = std::vector<uint64_t>;

TEST_F(SaveTest, OneAfterTheOtherAndTheyStay) {
  crowd();
  EXPECT_TRUE(saved(later(milliseconds(900))).empty());
  const auto first = later(milliseconds(100));
  ASSERT_EQ(saved(first), Jobs{2});
  EXPECT_EQ(of<SaveImage>(first).front().to, (OutsidePlace{Tier::store, units(20)}));
  EXPECT_EQ(of<SaveImage>(first).front().size, units(20));
  EXPECT_FALSE(job(2).clean);
  EXPECT_TRUE(saved(later(seconds(5))).empty()) << "one at a time";
  whole(2);
  EXPECT_TRUE(job(2).clean);
  EXPECT_EQ(job(2).state, JobState::resident);
  EXPECT_EQ(saved(later(seconds(1))), Jobs{3});
  whole(3);
  later(seconds(1));
  EXPECT_EQ(scheduler_->next_wakeup(), TimePoint::never()) << "all are clean";
}

TEST_F(SaveTest, NobodyWhileAllImagesHaveRoom) {
  make(100, 4);
  offer(1, 20, 5);
  place(1);
  EXPECT_TRUE(saved(later(seconds(5))).empty());
  EXPECT_EQ(scheduler_->next_wakeup(), TimePoint::never());
}

TEST_F(SaveTest, WorkStopsItAndLaterItIsTriedAgain) {
  crowd();
  ASSERT_EQ(saved(later(seconds(1))), Jobs{2});
  const auto turn = of<GrantTurn>(ready(2));
  ASSERT_EQ(turn.size(), 1U) << "the worker stops the copy";
  send(ImageSaved{JobId(2), false});
  EXPECT_EQ(job(2).store_bytes, Bytes());
  EXPECT_EQ(saved(later(seconds(1))), Jobs{3});
  whole(3);
  end_turn(turn.front().turn.id, TurnEnd::idle, false);
  EXPECT_TRUE(saved(later(seconds(1))).empty());
  EXPECT_EQ(saved(later(seconds(8))), Jobs{2});
}

TEST_F(SaveTest, WhoWasSavedLeavesForNothingAndIsDirtyAfterItsNextWork) {
  crowd();
  later(seconds(1));
  whole(2);
  const auto unloaded = send(ResidencyWanted{JobId(2), Residency::unload});
  ASSERT_EQ(of<EvictImage>(unloaded).size(), 1U);
  EXPECT_EQ(of<EvictImage>(unloaded).front().to, (OutsidePlace{Tier::store, units(20)}));
  send(ImageLeft{JobId(2)});
  later(seconds(1));
  whole(3);
  ready(3);
  send(ImageDirty{JobId(3)});
  EXPECT_FALSE(job(3).clean);
  EXPECT_EQ(job(3).store_bytes, Bytes());
}

TEST_F(SaveTest, WhoWorksNowAndThenIsNotSavedAgainAtOnce) {
  crowd();
  later(seconds(1));
  whole(2);
  later(seconds(1));
  whole(3);
  const auto turn = of<GrantTurn>(ready(2));
  ASSERT_EQ(turn.size(), 1U);
  send(ImageDirty{JobId(2)});
  end_turn(turn.front().turn.id, TurnEnd::idle, false);
  EXPECT_TRUE(saved(later(seconds(9))).empty());
  EXPECT_EQ(saved(later(seconds(1))), Jobs{2});
}

TEST_F(SaveTest, WhoIsBeingSavedMayBeAskedToLeave) {
  crowd();
  ASSERT_EQ(saved(later(seconds(1))), Jobs{2});
  const auto unloaded = send(ResidencyWanted{JobId(2), Residency::unload});
  ASSERT_EQ(of<EvictImage>(unloaded).size(), 1U);
  EXPECT_EQ(of<EvictImage>(unloaded).front().to, (OutsidePlace{Tier::store, units(20)}));
  send(ImageSaved{JobId(2), false});
  EXPECT_EQ(job(2).state, JobState::evicting);
  send(ImageLeft{JobId(2)});
  EXPECT_EQ(job(2).state, JobState::away);
  EXPECT_EQ(job(2).store_bytes, units(20));
}

TEST_F(SaveTest, WhoEndsMeanwhileGivesThePlaceBack) {
  crowd();
  ASSERT_EQ(saved(later(seconds(1))), Jobs{2});
  send(JobEnded{JobId(2)});
  whole(2);  // too late
  EXPECT_EQ(saved(later(seconds(1))), Jobs{3});
}

TEST_F(SaveTest, AnIdleTurnIsAskedWhetherThereIsWork) {
  crowd();
  const TurnId turn = of<GrantTurn>(ready(2)).at(0).turn.id;
  send(JobEnded{JobId(3)});
  EXPECT_TRUE(of<RecallTurn>(later(seconds(2))).empty());
  EXPECT_EQ(of<RecallTurn>(later(seconds(9))).size(), 1U);
  send(TurnEnded{.turn = turn,
                 .end = TurnEnd::idle,
                 .iterations = 0,
                 .busy = {},
                 .more_ready = false,
                 .ephemeral = {},
                 .idle = seconds(11)});
  EXPECT_EQ(saved(later(seconds(1))), Jobs{2});
}

TEST_F(SaveTest, ACoreMadeAnewGoesOn) {
  crowd();
  WorkerReport report;
  for (const uint64_t id : {1, 2, 3}) {
    ReportedJob one;
    one.offer.job = JobId(id);
    one.offer.session = SessionId(1);
    one.offer.persistent = units(20);
    one.offer.ephemeral = units(5);
    if (id != 3) one.image.copy = {Tier::store, units(20) * static_cast<int64_t>(id - 1)};
    one.image.clean = id == 1;
    one.image.state = std::array{ImageState::away, ImageState::saving, ImageState::here}.at(id - 1);
    if (id != 1) {
      one.lane = LaneId(id - 1);
      one.image_offset = units(20) * static_cast<int64_t>(id - 2);
      one.image_size = units(20);
      report.regions.push_back(
          {RegionId(id), one.lane, units(80 + 5 * static_cast<int64_t>(id - 2)), units(5)});
    }
    report.jobs.push_back(one);
  }
  make(100, 4);
  send(WorkerReported{report});
  EXPECT_FALSE(job(2).clean);
  EXPECT_TRUE(saved(later(seconds(1))).empty()) << "one of them is under way";
  whole(2);
  EXPECT_TRUE(job(2).clean);
  EXPECT_EQ(saved(later(seconds(1))), Jobs{3});
}

TEST_F(SaveTest, PinnedImagesAndThoseWithoutRoomInTheStoreAreLeftAlone) {
  store_ = units(30);
  crowd();
  EXPECT_TRUE(saved(later(seconds(1))).empty()) << "10 are left";
  store_ = units(200);
  crowd();
  send(ResidencyWanted{JobId(2), Residency::pin});
  EXPECT_EQ(saved(later(seconds(1))), Jobs{3});
}

}  // namespace
}  // namespace laneway::lanes
