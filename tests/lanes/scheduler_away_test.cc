// Jobs whose images are outside of the pool when a core is made from a report: what they wait for,
// how they come back, when their copies end, and which reports of copies are refused.
#include <gtest/gtest.h>

#include <set>

#include "lanes/core/wait_estimate.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class AwayTest : public SchedulerTest {
 protected:
  AwayTest() {
    store_ = units(50);
    spill_ = units(20);
  }
  static ReportedJob away(uint64_t id, int64_t persistent, Tier tier, int64_t offset) {
    return away_at(id, persistent, {tier, units(offset)});
  }
};

TEST_F(AwayTest, WithoutWorkItWaitsForNothingAndShutsNobodyOut) {
  make(100, 4);
  EXPECT_TRUE(restore({away(1, 40, Tier::store, 0)}).empty());
  EXPECT_EQ(job(1).state, JobState::away);
  EXPECT_EQ(job(1).reason.position, 0u);
  EXPECT_EQ(job(1).pool_bytes, Bytes());
  EXPECT_EQ(job(1).store_bytes, units(40));
  EXPECT_TRUE(job(1).clean);
  EXPECT_EQ(of<PlaceImage>(offer(2, 20, 10)).size(), 1u) << "the pool is free";
}

TEST_F(AwayTest, WorkBringsItBackAndItsCopyStaysUntilTheImageDiffers) {
  make(100, 4);
  restore({away(2, 15, Tier::spill, 5)});
  const auto actions = ready(2);
  ASSERT_EQ(of<AdmitJob>(actions).size(), 1u);
  ASSERT_EQ(of<PlaceImage>(actions).size(), 1u);
  EXPECT_TRUE(of<GrantTurn>(actions).empty()) << "its bytes are not there yet";
  EXPECT_EQ(job(2).state, JobState::restoring);
  EXPECT_EQ(job(2).pool_bytes, units(15));
  send(ImageDirty{JobId(2)});
  EXPECT_TRUE(job(2).clean) << "an image that is not there can't differ from its copy";
  EXPECT_EQ(of<GrantTurn>(place(2)).size(), 1u);
  EXPECT_EQ(job(2).spill_bytes, units(15));
  send(ImageDirty{JobId(2)});
  EXPECT_FALSE(job(2).clean);
  EXPECT_EQ(job(2).spill_bytes, Bytes());
}

TEST_F(AwayTest, WhatArrivesRunsAndNothingElseIsDoneWithItUntilItIsWhole) {
  make(100, 4);
  restore({away(2, 15, Tier::store, 5)});
  ready(2);
  const auto granted = of<GrantTurn>(send(ImagePlaced{JobId(2), false}));
  ASSERT_EQ(granted.size(), 1u);
  EXPECT_TRUE(job(2).arriving);
  EXPECT_EQ(job(2).state, JobState::running);
  send(ImageDirty{JobId(2)});
  EXPECT_TRUE(job(2).clean) << "nobody writes what is not there";
  EXPECT_TRUE(of<RecallTurn>(send(ResidencyWanted{JobId(2), Residency::unload})).empty());
  send(ResidencyWanted{JobId(2), Residency::load});
  end_turn(granted.front().turn.id, TurnEnd::idle, false);
  EXPECT_EQ(job(2).state, JobState::resident);
  now_ = now_ + milliseconds(40);
  send(ImagePlaced{JobId(2), true});
  EXPECT_FALSE(job(2).arriving);
  send(ImagePlaced{JobId(2), true});
  EXPECT_EQ(scheduler_->snapshot().ignored_events, 2u) << "a dirty one, and the last one";
  EXPECT_EQ(of<EvictImage>(send(ResidencyWanted{JobId(2), Residency::unload})).size(), 1u);
}

TEST_F(AwayTest, WhoIsSentOutOnItsWayInLeavesWhenItIsWhole) {
  for (const bool running : {false, true}) {
    make(100, 4);
    restore({away(2, 15, Tier::store, 5)});
    send(ResidencyWanted{JobId(2), running ? Residency::load : Residency::pin});
    if (running) ready(2);
    EXPECT_EQ(job(2).state, JobState::restoring);
    if (!running) send(ResidencyWanted{JobId(2), Residency::unpin});
    send(ResidencyWanted{JobId(2), Residency::unload});
    send(ImagePlaced{JobId(2), false});
    const auto actions = send(ImagePlaced{JobId(2), true});
    EXPECT_EQ(of<EvictImage>(actions).size(), running ? 0u : 1u);
    EXPECT_EQ(of<RecallTurn>(actions).size(), running ? 1u : 0u);
  }
}

TEST_F(AwayTest, WhatArrivesIsReportedAndWaitsForItsSecondWord) {
  make(100, 4);
  ReportedJob arriving = in_pool(away(1, 40, Tier::store, 0), 0);
  arriving.image.state = ImageState::arriving;
  arriving.turn = TurnId(3);
  restore({arriving}, true);
  EXPECT_EQ(job(1).state, JobState::running);
  EXPECT_TRUE(job(1).arriving);
  send(ImagePlaced{JobId(1), true});
  EXPECT_FALSE(job(1).arriving);
}

TEST_F(AwayTest, WhatCannotBeArrivingIsRefused) {
  ReportedJob without_lane = away(1, 40, Tier::store, 0);
  ReportedJob without_copy = in_pool(away(1, 40, Tier::none, 0), 0);
  ReportedJob half_copied = in_pool(away(1, 40, Tier::store, 0), 0);
  half_copied.image.clean = false;
  for (ReportedJob one : {without_lane, without_copy, half_copied}) {
    make(100, 4);
    one.image.state = ImageState::arriving;
    EXPECT_EQ(of<RefuseJob>(restore({one}, true)).size(), 1u);
  }
  make(100, 4);
  offer(5, 20, 5);
  send(ImagePlaced{JobId(5), false});
  EXPECT_EQ(job(5).state, JobState::staged) << "first bytes have no copy to arrive from";
}

TEST_F(AwayTest, WithWorkItStandsInTheQueueLikeThoseThatWereNeverIn) {
  make(100, 4);
  ReportedJob large = in_pool(away(3, 80, Tier::none, 0), 0);
  large.offer.options.total_iterations = 10;
  large.iterations = 5;
  large.busy = milliseconds(5);
  restore({away(1, 40, Tier::store, 0), large}, true);
  const auto queued = of<QueueJob>(ready(1));
  ASSERT_EQ(queued.size(), 1u);
  EXPECT_EQ(queued[0].reason.code, ReasonCode::pool_full);
  EXPECT_EQ(queued[0].reason.position, 1u);
  EXPECT_EQ(of<QueueJob>(offer(4, 40, 10)).front().reason.position, 2u);
  EXPECT_EQ(estimate_wait(scheduler_->snapshot(), JobId(1)), milliseconds(5));
  const auto freed = send(JobEnded{JobId(3)});
  ASSERT_FALSE(of<AdmitJob>(freed).empty());
  EXPECT_EQ(of<AdmitJob>(freed).front().job, JobId(1));
}

TEST_F(AwayTest, AnEndFreesTheCopyWhereverTheJobStands) {
  make(100, 4);
  restore({away(1, 40, Tier::store, 0), in_pool(away(2, 20, Tier::spill, 0), 0)}, true);
  EXPECT_EQ(of<DropImage>(send(JobEnded{JobId(1)})).size(), 1u);
  EXPECT_EQ(of<DropImage>(send(JobEnded{JobId(2)})).size(), 1u);
  for (const JobStatus& status : scheduler_->snapshot().ended) {
    EXPECT_EQ(status.store_bytes + status.spill_bytes + status.pool_bytes, Bytes());
  }
}

TEST_F(AwayTest, CopiesThatContradictTheTiersOrEachOtherAreRefused) {
  make(100, 4);
  const auto actions = restore(
      {away(1, 30, Tier::store, 0), away(2, 30, Tier::store, 29), away(3, 10, Tier::spill, 11),
       away(4, 10, Tier::spill, -1), away(5, 10, static_cast<Tier>(9), 0),
       in_pool(away(6, 20, Tier::store, 29), 0), in_pool(away(7, 20, Tier::store, 30), 5)},
      true);
  std::set<uint64_t> refused;
  for (const RefuseJob& refuse : of<RefuseJob>(actions)) {
    EXPECT_EQ(refuse.reason.code, ReasonCode::contradicted);
    refused.insert(refuse.job.value());
  }
  EXPECT_EQ(refused, (std::set<uint64_t>{2, 3, 4, 5, 6}));
  EXPECT_EQ(of<DropImage>(actions).size(), refused.size()) << "their bytes belong to nobody";
  EXPECT_EQ(job(7).state, JobState::resident) << "nothing is left of the refused one in its range";
}

TEST_F(AwayTest, ARestoreThatWasUnderWayIsAskedForAgain) {
  make(100, 4);
  ReportedJob coming = in_pool(away(1, 30, Tier::store, 0), 0);
  coming.image.state = ImageState::coming;
  coming.pinned = true;
  EXPECT_EQ(of<PlaceImage>(restore({coming}, true)).size(), 1u);
  EXPECT_EQ(job(1).state, JobState::restoring);
  EXPECT_TRUE(job(1).pinned);
  send(ResidencyWanted{JobId(1), Residency::unpin});
  EXPECT_FALSE(job(1).pinned);
  place(1);
  EXPECT_EQ(job(1).state, JobState::resident);
}

}  // namespace
}  // namespace laneway::lanes
