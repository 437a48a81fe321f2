// One slow copy keeps nobody else waiting: sets of images leave to different tiers side by side,
// and a tier whose copy is late is passed over.
#include <gtest/gtest.h>

#include "lanes/state/copies_out.h"
#include "policies/registry.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

using Jobs = std::vector<uint64_t>;

class CopiesOutTest : public SchedulerTest {
 protected:
  void idle(uint64_t id, int64_t persistent, int64_t ephemeral = 10) {
    offer(id, persistent, ephemeral);
    place(id);
  }
  std::vector<Action> left(uint64_t id) { return send(ImageLeft{JobId(id)}); }
  static Jobs leaving(const std::vector<Action>& actions) {
    Jobs jobs;
    for (const EvictImage& evict : of<EvictImage>(actions)) jobs.push_back(evict.job.value());
    return jobs;
  }
};

TEST_F(CopiesOutTest, WhoseImagesGoToTheSlowFileKeepsNobodyWaitingForTheStore) {
  store_ = units(20);
  spill_ = units(200);
  make(100, 8, 0, policies::make_policy("priority").value());
  idle(1, 50);
  idle(2, 20);
  now_ = now_ + seconds(100);
  const auto first = offer(3, 50, 10);
  ASSERT_EQ(leaving(first), Jobs{1});
  EXPECT_EQ(of<EvictImage>(first).front().to.tier, Tier::spill);
  const auto second = offer_urgent(4, 20, 10, 1);
  ASSERT_EQ(leaving(second), Jobs{2}) << "before the first one has left";
  EXPECT_EQ(of<EvictImage>(second).front().to.tier, Tier::store);
  EXPECT_EQ(of<AdmitJob>(left(2)).front().job, JobId(4));
  EXPECT_EQ(of<AdmitJob>(left(1)).front().job, JobId(3));
}

TEST_F(CopiesOutTest, CopiesToOneTierGoOneSetAfterTheOther) {
  store_ = units(200);
  make(100, 8);
  idle(1, 40);
  idle(2, 30);
  now_ = now_ + seconds(100);
  ASSERT_EQ(leaving(offer(3, 40, 10)), Jobs{1});
  EXPECT_EQ(leaving(offer(4, 30, 10)), Jobs{});
  EXPECT_EQ(leaving(left(1)), Jobs{2});
}

TEST_F(CopiesOutTest, WhileTheFileStallsOthersLeaveToTheStore) {
  store_ = units(30);
  spill_ = units(200);
  make(100, 8);
  idle(1, 50);
  now_ = now_ + seconds(10);
  idle(2, 30);
  now_ = now_ + seconds(100);
  ASSERT_EQ(leaving(offer(3, 30, 5)), Jobs{1}) << "it was not used for longest";
  EXPECT_FALSE(scheduler_->snapshot().spill.stalls);
  const TimePoint late = scheduler_->next_wakeup();
  EXPECT_EQ(late, now_ + kLeastCopyPatience);
  now_ = late;
  EXPECT_EQ(leaving(send(TimerFired{})), Jobs{2});
  EXPECT_TRUE(scheduler_->snapshot().spill.stalls);
  EXPECT_EQ(of<AdmitJob>(left(2)).front().job, JobId(3));
  left(1);
  EXPECT_FALSE(scheduler_->snapshot().spill.stalls);
}

TEST_F(CopiesOutTest, ACopyThatComesBackLateMakesItsTierStallToo) {
  store_ = units(30);
  spill_ = units(200);
  make(100, 8);
  idle(1, 50);
  now_ = now_ + seconds(10);
  idle(2, 30);
  now_ = now_ + seconds(100);
  ASSERT_EQ(leaving(offer(3, 30, 5)), Jobs{1}) << "to the file";
  left(1);
  send(JobEnded{JobId(3)});
  ready(1);
  ASSERT_EQ(job(1).state, JobState::restoring);
  now_ = now_ + (kLeastCopyPatience - microseconds(21));
  send(TimerFired{});
  EXPECT_FALSE(scheduler_->snapshot().spill.stalls);
  send(TimerFired{});
  EXPECT_TRUE(scheduler_->snapshot().spill.stalls);
  EXPECT_FALSE(scheduler_->snapshot().store.stalls);
  send(ImagePlaced{.job = JobId(1), .whole = false});
  EXPECT_TRUE(scheduler_->snapshot().spill.stalls) << "its bytes are on their way";
  place(1);
  EXPECT_FALSE(scheduler_->snapshot().spill.stalls);
}

TEST_F(CopiesOutTest, ItIsLateByTheCopyThatBeganFirst) {
  store_ = units(30);
  spill_ = units(200);
  make(100, 8);
  idle(1, 40);
  idle(2, 40);
  now_ = now_ + seconds(100);
  ASSERT_EQ(leaving(offer(3, 40, 5)), Jobs{1});
  left(1);
  ASSERT_EQ(leaving(offer(4, 40, 5)), Jobs{2});
  left(2);
  send(JobEnded{JobId(3)});
  send(JobEnded{JobId(4)});
  ready(1);
  const TimePoint begun = now_;
  ASSERT_EQ(job(1).state, JobState::restoring);
  now_ = now_ + seconds(4);
  ready(2);
  ASSERT_EQ(job(2).state, JobState::restoring);
  now_ = begun + kLeastCopyPatience;
  send(TimerFired{});
  EXPECT_TRUE(scheduler_->snapshot().spill.stalls);
}

}  // namespace
}  // namespace laneway::lanes
