// No admitted job waits for ever for room that idle jobs hold: homes outside of the pool, who is
// admitted without one, who waits aside and who is refused, and what ends a wait all the same.
#include <gtest/gtest.h>

#include <algorithm>

#include "policies/registry.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class ExchangeTest : public SchedulerTest {
 protected:
  // A model that serves, placed and without work.
  std::vector<Action> serve(uint64_t id, int64_t persistent, int64_t ephemeral = 5) {
    JobOffered offer;
    offer.job = JobId(id);
    offer.session = SessionId(1);
    offer.options.name = "m" + std::to_string(id);
    offer.options.job_class = JobClass::inference;
    offer.persistent = units(persistent);
    offer.ephemeral = units(ephemeral);
    return settle(send(offer));
  }
  // What the worker does until nothing is under way. Returns all actions.
  std::vector<Action> settle(std::vector<Action> actions) {
    std::vector<Action> all;
    for (size_t i = 0; i < actions.size(); ++i) {
      all.push_back(actions[i]);
      if (const auto* refuse = std::get_if<RefuseWork>(&actions[i])) refused_.push_back(*refuse);
      std::vector<Action> more;
      if (const auto* place = std::get_if<PlaceImage>(&actions[i])) {
        more = send(ImagePlaced{place->job});
      } else if (const auto* evict = std::get_if<EvictImage>(&actions[i])) {
        more = send(ImageLeft{evict->job});
      } else if (const auto* grant = std::get_if<GrantTurn>(&actions[i])) {
        answered_ = grant->turn.job;
        more = end_turn(grant->turn.id, TurnEnd::idle, false);
      }
      actions.insert(actions.end(), more.begin(), more.end());
    }
    return all;
  }
  // Whether a call of the model is answered.
  bool call(uint64_t id) {
    answered_ = {};
    settle(ready(id));
    pass_timers(JobId(id));
    return answered_ == JobId(id);
  }
  // Until none is set, or the job has been answered.
  void pass_timers(JobId until = {}) {
    for (int i = 0; i < 50 && (!until.valid() || answered_ != until); ++i) {
      const TimePoint next = scheduler_->next_wakeup();
      if (next == TimePoint::never()) break;
      now_ = std::max(now_, next);
      settle(send(TimerFired{}));
    }
  }
  JobId answered_;
  std::vector<RefuseWork> refused_;
};

// As found live: pool and store hold all of them together, and nobody could change places.
TEST_F(ExchangeTest, OfEightModelsThatFillPoolAndStoreEachIsAnsweredOrRefused) {
  store_ = units(160);
  make(160, 8);
  std::vector<uint64_t> admitted;
  uint64_t refused = 0;
  for (uint64_t id = 1; id <= 8; ++id) {
    const int64_t size[] = {20, 29, 41, 54};
    const auto actions = serve(id, size[(id - 1) % 4]);
    for (const RefuseJob& refuse : of<RefuseJob>(actions)) {
      EXPECT_EQ(refuse.reason.code, ReasonCode::no_exchange);
      EXPECT_EQ(refuse.reason.outside, units(160));
      EXPECT_GT(refuse.reason.staying, Bytes());
      ++refused;
    }
    if (of<RefuseJob>(actions).empty()) admitted.push_back(id);
  }
  EXPECT_EQ(admitted.size() + refused, 8u);
  EXPECT_GE(admitted.size(), 6u);
  for (int round = 0; round < 3; ++round) {
    for (const uint64_t id : admitted) EXPECT_TRUE(call(id)) << "model " << id;
    std::reverse(admitted.begin(), admitted.end());
  }
}

TEST_F(ExchangeTest, ATrainingWaitsAsideUntilOneEndsAndNobodyBehindIt) {
  store_ = units(60);
  make(100, 4);
  settle(offer(1, 60, 10));
  const auto second = offer(2, 60, 10);
  ASSERT_EQ(of<QueueJob>(second).size(), 1u);
  EXPECT_EQ(of<QueueJob>(second).front().reason.code, ReasonCode::exchange_full);
  EXPECT_TRUE(of<EvictImage>(second).empty()) << "nobody leaves in vain";
  EXPECT_EQ(of<AdmitJob>(offer(3, 10, 10)).size(), 1u) << "it may stay beside them";
  const auto ended = send(JobEnded{JobId(1)});
  ASSERT_EQ(of<AdmitJob>(ended).size(), 1u);
  EXPECT_EQ(of<AdmitJob>(ended).front().job, JobId(2));
}

TEST_F(ExchangeTest, WhoServesIsRefusedWhereNoTrainingEnds) {
  store_ = units(60);
  make(100, 4);
  serve(1, 60);
  const auto actions = serve(2, 60);
  ASSERT_EQ(of<RefuseJob>(actions).size(), 1u);
  EXPECT_EQ(of<RefuseJob>(actions).front().reason.code, ReasonCode::no_exchange);
  EXPECT_TRUE(call(1));
}

TEST_F(ExchangeTest, AHomeThatGetsFreeGoesToWhoHasNone) {
  store_ = units(40);
  make(100, 4);
  serve(1, 40);
  serve(2, 30);
  EXPECT_TRUE(of<EvictImage>(send(ResidencyWanted{JobId(2), Residency::unload})).empty());
  send(JobEnded{JobId(1)});
  EXPECT_EQ(of<EvictImage>(send(ResidencyWanted{JobId(2), Residency::unload})).size(), 1u);
}

TEST_F(ExchangeTest, ImagesAThousandTimesApartChangePlaces) {
  store_ = units(2100);
  make(1200, 4);
  serve(1, 1000);
  serve(2, 1);
  serve(3, 1000);
  for (const uint64_t id : {1, 3, 2, 1, 2, 3}) EXPECT_TRUE(call(id)) << id;
}

TEST_F(ExchangeTest, APinnedImageIsWaitedForAndNotRefused) {
  store_ = units(120);
  make(100, 4);
  serve(1, 60);
  settle(send(ResidencyWanted{JobId(1), Residency::pin}));
  settle(offer(2, 60, 10));
  EXPECT_EQ(job(2).state, JobState::waiting);
  settle(send(ResidencyWanted{JobId(1), Residency::unpin}));
  EXPECT_EQ(job(2).state, JobState::resident);
  EXPECT_TRUE(call(1));
}

// A report may leave too few homes, and a need may grow beside one who stays.
TEST_F(ExchangeTest, WhoCanNeverComeBackIsToldSoAndKeepsItsState) {
  store_ = units(70);
  make(100, 4);
  // 60 are in the store, 50 in the pool and find no home.
  ReportedJob there = in_pool(away_at(2, 50, {}), 0);
  restore({away_at(1, 60, {Tier::store, units(0)}), there}, /*with_lane=*/true);
  EXPECT_FALSE(call(1));
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_.front().job, JobId(1));
  EXPECT_EQ(refused_.front().reason.code, ReasonCode::no_way_back);
  EXPECT_EQ(refused_.front().reason.staying, units(50));
  EXPECT_EQ(job(1).state, JobState::away);
  EXPECT_EQ(job(1).store_bytes, units(60));
  send(JobEnded{JobId(2)});
  EXPECT_TRUE(call(1)) << "as soon as it can";
}

// … and if nobody but a `load` wants it, its status says so, and others are not behind it for ever.
TEST_F(ExchangeTest, WhoIsLoadedAndCanNeverComeBackKeepsNobodyWaiting) {
  store_ = units(70);
  make(100, 4);
  ReportedJob there = in_pool(away_at(2, 50, {}), 0);
  restore(
      {away_at(1, 55, {Tier::store, units(0)}), there, away_at(3, 15, {Tier::store, units(55)})},
      /*with_lane=*/true);
  settle(send(ResidencyWanted{JobId(1), Residency::load}));
  pass_timers();
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_.front().job, JobId(1));
  EXPECT_EQ(job(1).reason.code, ReasonCode::no_way_back);
  EXPECT_TRUE(call(3));
  for (const uint64_t id : {2, 3}) send(JobEnded{JobId(id)});
  EXPECT_TRUE(call(1)) << "as soon as it can";
  EXPECT_EQ(job(1).reason.code, ReasonCode::none);
}

TEST_F(ExchangeTest, AnImageThatIsPinnedComesBackAsSoonAsItCan) {
  store_ = units(70);
  make(100, 4);
  ReportedJob there = in_pool(away_at(2, 50, {}), 0);
  restore({away_at(1, 55, {Tier::store, units(0)}), there}, /*with_lane=*/true);
  settle(send(ResidencyWanted{JobId(1), Residency::pin}));
  pass_timers();
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(job(1).state, JobState::away);
  settle(send(JobEnded{JobId(2)}));
  EXPECT_EQ(job(1).state, JobState::resident) << "nobody asked again";
}

TEST_F(ExchangeTest, WhoFindsNoLaneSinceLanesAreSharedNoMoreIsToldSo) {
  store_ = units(30);
  make(100, 1);
  serve(1, 30);
  serve(2, 40);
  EXPECT_TRUE(call(1));
  settle(send(ResidencyWanted{JobId(1), Residency::unload}));
  ASSERT_EQ(job(1).state, JobState::away);
  scheduler_->set_policy(policies::make_policy("fifo:share=no").value());
  EXPECT_FALSE(call(1)) << "the only lane is that of a model which has no home to go to";
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_.front().reason.code, ReasonCode::no_way_back);
  scheduler_->set_policy(policies::make_policy("fifo").value());
  EXPECT_TRUE(call(1));
}

TEST_F(ExchangeTest, ALaneThatCannotGrowBesideModelsThatServeDoesNotWaitForTheirEnd) {
  store_ = units(30);
  make(100, 2);
  serve(1, 50);
  settle(offer(2, 30, 10));
  const auto grant = of<GrantTurn>(ready(2));
  ASSERT_EQ(grant.size(), 1u);
  settle(end_turn(grant.front().turn.id, TurnEnd::out_of_lane, true, units(40)));
  EXPECT_FALSE(call(2));
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_.front().job, JobId(2));
  EXPECT_EQ(refused_.front().reason.code, ReasonCode::no_way_back);
}

TEST_F(ExchangeTest, WhoRunsIsWaitedForBeforeAnybodyIsRefused) {
  store_ = units(70);
  make(100, 4);
  restore({away_at(1, 60, {Tier::store, units(0)}), in_pool(away_at(2, 50, {}), 0)}, true);
  ASSERT_EQ(of<GrantTurn>(ready(2)).size(), 1u);
  EXPECT_TRUE(of<RefuseWork>(ready(1)).empty());
  EXPECT_EQ(of<AdmitJob>(send(JobEnded{JobId(2)})).size(), 0u) << "its turn is open";
}

TEST_F(ExchangeTest, AReportsCopiesAreHomesAndTheLargestOfTheOthersComesFirst) {
  store_ = units(70);
  make(100, 4);
  ReportedJob small = in_pool(away_at(2, 20, {}), 0);
  ReportedJob large = in_pool(away_at(3, 50, {}), 20);
  restore({away_at(1, 10, {Tier::store, units(60)}), small, large}, true);
  EXPECT_TRUE(of<EvictImage>(send(ResidencyWanted{JobId(2), Residency::unload})).empty());
  EXPECT_EQ(of<EvictImage>(send(ResidencyWanted{JobId(3), Residency::unload})).size(), 1u);
}

TEST_F(ExchangeTest, AClientThatEndsWhileItsImageIsInTwoPlacesLeavesNothing) {
  store_ = units(60);
  make(100, 4);
  serve(1, 60);
  ASSERT_EQ(of<EvictImage>(send(ResidencyWanted{JobId(1), Residency::unload})).size(), 1u);
  send(JobEnded{JobId(1)});
  EXPECT_EQ(scheduler_->snapshot().store.claimed, Bytes());
  EXPECT_EQ(of<AdmitJob>(serve(2, 60)).size(), 1u);
}

}  // namespace
}  // namespace laneway::lanes
