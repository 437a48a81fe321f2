// Shows that the core says of every job with work that does not run why, since when and behind
// whom, with the numbers of now; and of every other job nothing.
#include "lanes/state/standing.h"

#include <map>
#include <string>
#include <vector>

#include "policies/registry.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class StandingTest : public SchedulerTest {
 protected:
  void expect_nothing(uint64_t id, const char* why) {
    EXPECT_EQ(job(id).reason.code, ReasonCode::none) << why;
    EXPECT_FALSE(job(id).waiting_since) << why;
  }
};

TEST_F(StandingTest, WhoWaitsForMemoryIsToldWhoHasIt) {
  make(100, 8);
  offer(1, 10, 5);
  offer(2, 30, 5);
  offer(3, 15, 5);
  offer(4, 60, 10);
  EXPECT_EQ(job(4).reason.code, ReasonCode::pool_full);
  EXPECT_EQ(job(4).reason.holders, (Holders{JobId(2), JobId(3), JobId(1), 0}));
  EXPECT_FALSE(job(4).reason.may_leave);
  offer(5, 5, 5);
  EXPECT_EQ(job(5).reason.holders, Holders()) << "it waits for job 4 alone";
}

TEST_F(StandingTest, InASharedLaneAJobWaitsBehindTheOneThatRuns) {
  make(100, 1);
  start(1, 10, 10);
  offer(2, 10, 10);
  expect_nothing(2, "its image is on its way, and it has nothing to run");
  place(2);
  expect_nothing(2, "it has nothing to run");
  ready(2);
  const TimePoint since = now_;
  send(TimerFired{});
  EXPECT_EQ(job(2).reason.code, ReasonCode::waits_turn);
  EXPECT_EQ(job(2).reason.lane, LaneId(1));
  EXPECT_EQ(job(2).reason.behind, JobId(1));
  EXPECT_EQ(job(2).waiting_since, since);
  expect_nothing(1, "it runs");
  // Its turn ends, and with more work queued it waits from then on.
  const TurnId first =
      scheduler_->snapshot().lanes.at(0).running == JobId(1) ? TurnId(1) : TurnId();
  end_turn(first, TurnEnd::idle, /*more_ready=*/false);
  expect_nothing(1, "it has nothing to run");
  EXPECT_EQ(job(2).state, JobState::running);
  expect_nothing(2, "it runs");
}

TEST_F(StandingTest, AJobWhoseImageIsOnItsWayWaitsForTheCopyFromItsFirstWorkOn) {
  make(100, 1);
  offer(1, 10, 10);
  ready(1);
  const TimePoint since = now_;
  EXPECT_EQ(job(1).reason.code, ReasonCode::copy_under_way);
  EXPECT_EQ(job(1).waiting_since, since);
  place(1);
  expect_nothing(1, "it runs");
}

TEST_F(StandingTest, AJobWithoutMemoryWaitsSinceItsOffer) {
  make(100, 2);
  start(1, 60, 30);
  offer(2, 60, 30);
  const TimePoint since = now_;
  offer(3, 5, 5);
  ready(2);
  EXPECT_EQ(job(2).reason.code, ReasonCode::pool_full);
  EXPECT_EQ(job(2).reason.position, 1u);
  EXPECT_EQ(job(2).waiting_since, since);
  send(WorkerLost{});
  EXPECT_EQ(job(2).reason.code, ReasonCode::worker_starting);
  EXPECT_EQ(job(1).reason.code, ReasonCode::worker_starting) << "what ran is queued again";
}

TEST_F(StandingTest, AConflictOfNumericSettingsIsToldOfTheJobThatIsKeptBack) {
  make(100, 2);
  start(1, 10, 10, /*context_key=*/1);
  start(2, 10, 10, /*context_key=*/2);
  EXPECT_EQ(job(2).reason.code, ReasonCode::context_conflict);
  EXPECT_TRUE(job(2).waiting_since);
}

TEST_F(StandingTest, TheNumbersAreThoseOfNow) {
  make(100, 2);
  start(1, 10, 20);
  start(2, 10, 50);
  const TurnId first = TurnId(1);
  end_turn(first, TurnEnd::out_of_lane, false, units(60));
  ASSERT_EQ(job(1).state, JobState::held);
  const Bytes before = job(1).reason.claimed;
  EXPECT_EQ(before, scheduler_->pool().claimed());
  offer(3, 1, 1);  // waits, and changes nothing
  EXPECT_EQ(job(1).reason.claimed, scheduler_->pool().claimed());
  EXPECT_EQ(job(1).reason.code, ReasonCode::region_too_small);
  EXPECT_TRUE(job(1).waiting_since);
}

// Three jobs wait for a pool that a fourth has for itself: 300, 100 and 200 iterations long. Their
// positions must be the order in which they get in, one after the other.
class PositionTest : public StandingTest {
 protected:
  void make_with(const std::string& policy) {
    make(100, 4, 0, policies::make_policy(policy).value());
    start(1, 60, 30);
    for (const uint64_t id : {2, 3, 4}) {
      JobOffered offer;
      offer.job = JobId(id);
      offer.session = SessionId(1);
      offer.options.name = "job" + std::to_string(id);
      offer.options.total_iterations = id == 2 ? 300 : id == 3 ? 100 : 200;
      offer.iteration_estimate = milliseconds(1);
      offer.persistent = units(60);
      offer.ephemeral = units(30);
      for (const QueueJob& told : of<QueueJob>(send(offer))) told_[told.job] = told.reason.position;
    }
  }
  std::vector<uint32_t> positions() const {
    return {job(2).reason.position, job(3).reason.position, job(4).reason.position};
  }
  // Who gets in when everybody before has ended.
  std::vector<uint64_t> admitted_one_by_one() {
    std::vector<uint64_t> order;
    std::vector<Action> actions = send(JobEnded{JobId(1)});
    for (const Action& action : end_turn(TurnId(1), TurnEnd::idle, false)) {
      actions.push_back(action);
    }
    while (!of<AdmitJob>(actions).empty()) {
      const JobId in = of<AdmitJob>(actions).at(0).job;
      order.push_back(in.value());
      actions = send(JobEnded{in});
    }
    return order;
  }
  std::map<JobId, uint32_t> told_;  // by the last QueueJob
};

TEST_F(PositionTest, UnderFifoTheyAreTheOrderOfTheOffers) {
  make_with("fifo");
  EXPECT_EQ(positions(), (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ(admitted_one_by_one(), (std::vector<uint64_t>{2, 3, 4}));
}

TEST_F(PositionTest, UnderSrtfTheShortestIsFirstWheneverItCame) {
  make_with("srtf");
  EXPECT_EQ(positions(), (std::vector<uint32_t>{3, 1, 2}));
  EXPECT_EQ(told_[JobId(3)], 1u) << "its client is told the same";
  EXPECT_EQ(told_[JobId(4)], 2u);
  EXPECT_EQ(admitted_one_by_one(), (std::vector<uint64_t>{3, 4, 2}));
}

TEST_F(PositionTest, AReservationGoesBeforeThePolicysOrder) {
  make_with("srtf:reserve_s=10");
  now_ = now_ + seconds(11);
  offer(5, 60, 30);  // it came later, and nothing is known of it: it would be the first
  EXPECT_EQ(positions(), (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ(job(5).reason.position, 4u);
  EXPECT_EQ(admitted_one_by_one(), (std::vector<uint64_t>{2, 3, 4, 5}));
}

TEST_F(PositionTest, AnotherPolicyHasOtherPositionsAtOnce) {
  make_with("fifo");
  scheduler_->set_policy(policies::make_policy("srtf").value());
  EXPECT_EQ(positions(), (std::vector<uint32_t>{3, 1, 2}));
}

}  // namespace
}  // namespace laneway::lanes
