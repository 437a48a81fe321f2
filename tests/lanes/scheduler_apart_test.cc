// Lanes that the policy keeps apart take turns: who waits begins in order when the turns in its way
// have ended, these are made to end, nobody who conflicts with one that waits overtakes it; more
// urgent jobs and other policies are not bound by it; and the core learns times alone and beside.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "policies/fifo.h"
#include "tests/lanes/first_come.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

using policies::Beside;

// First come, first served in a lane; pairs of jobs are what a test says they are.
class Apart final : public FirstCome {
 public:
  std::map<std::pair<uint64_t, uint64_t>, Beside> pairs;

  std::string_view name() const override { return "apart"; }
  bool separates() const override { return true; }
  Beside beside(TimePoint /*now*/, const policies::View& /*view*/, const policies::JobView& running,
                const policies::JobView& wants) override {
    const auto found = pairs.find(std::minmax(running.id.value(), wants.id.value()));
    return found == pairs.end() ? Beside::together : found->second;
  }
};

class SchedulerApartTest : public SchedulerTest {
 protected:
  void SetUp() override {
    auto policy = std::make_unique<Apart>();
    policy_ = policy.get();
    make(100, 4, 0, std::move(policy));
  }
  void apart(uint64_t one, uint64_t other, Beside how = Beside::apart) {
    policy_->pairs[{one, other}] = how;
  }
  // The turn that was granted to the job.
  static Turn granted(const std::vector<Action>& actions, uint64_t job) {
    for (const GrantTurn& grant : of<GrantTurn>(actions)) {
      if (grant.turn.job == JobId(job)) return grant.turn;
    }
    ADD_FAILURE() << "job " << job << " got no turn";
    return {};
  }
  // A turn of so many iterations in so many microseconds; its job has more to do.
  std::vector<Action> finish(const Turn& turn, uint64_t iterations, int64_t us, int64_t wait_us) {
    now_ = now_ + microseconds(wait_us);
    return send(TurnEnded{.turn = turn.id,
                          .end = TurnEnd::budget,
                          .iterations = iterations,
                          .busy = microseconds(us),
                          .more_ready = true,
                          .ephemeral = Bytes()});
  }
  const policies::JobView& view_of(uint64_t id) const {
    return *scheduler_->view().lane(job(id).lane)->jobs.front();
  }

  Apart* policy_ = nullptr;
};

TEST_F(SchedulerApartTest, WhoIsKeptApartWaitsForATurnThatIsMadeToEndAndThenTakesTurns) {
  apart(1, 2);
  Turn first = granted(start(1, 10, 5), 1);
  EXPECT_FALSE(first.envelope.budget.is_bound());
  std::vector<Action> actions = start(2, 10, 5);
  EXPECT_TRUE(of<GrantTurn>(actions).empty());
  ASSERT_EQ(of<RecallTurn>(actions).size(), 1u);
  EXPECT_EQ(of<RecallTurn>(actions)[0].turn, first.id);
  const Reason why = job(2).reason;
  EXPECT_EQ(why.code, ReasonCode::takes_turns);
  EXPECT_EQ(why.behind, JobId(1));
  EXPECT_NE(reason_text(why).find("lane 2 takes turns with that of job 1"), std::string::npos);
  for (int round = 0; round < 3; ++round) {
    actions = end_turn(first.id, TurnEnd::budget, /*more_ready=*/true);
    const Turn second = granted(actions, 2);
    EXPECT_TRUE(second.envelope.budget.is_bound()) << "job 1 waits for it";
    EXPECT_EQ(of<GrantTurn>(actions).size(), 1u);
    actions = end_turn(second.id, TurnEnd::budget, /*more_ready=*/true);
    first = granted(actions, 1);
    EXPECT_TRUE(first.envelope.budget.is_bound());
  }
}

TEST_F(SchedulerApartTest, WhoConflictsWithOneThatWaitsDoesNotOvertakeItAndOthersDo) {
  apart(1, 2);
  apart(2, 3);
  const Turn first = granted(start(1, 10, 5), 1);
  start(2, 10, 5);
  EXPECT_TRUE(of<GrantTurn>(start(3, 10, 5)).empty()) << "job 2 would wait for it too";
  EXPECT_EQ(job(3).reason.behind, JobId(2));
  granted(start(4, 10, 5), 4);  // in nobody's way
  std::vector<Action> actions = end_turn(first.id, TurnEnd::idle, /*more_ready=*/false);
  const Turn second = granted(actions, 2);
  EXPECT_EQ(of<GrantTurn>(actions).size(), 1u);
  actions = end_turn(second.id, TurnEnd::idle, /*more_ready=*/false);
  granted(actions, 3);
}

TEST_F(SchedulerApartTest, AMoreUrgentJobIsNotKeptApart) {
  apart(1, 2);
  start(1, 10, 5);
  offer_urgent(2, 10, 5, /*priority=*/3);
  place(2);
  granted(ready(2), 2);
}

TEST_F(SchedulerApartTest, UnderAnotherPolicyWhoWaitsBegins) {
  apart(1, 2);
  start(1, 10, 5);
  start(2, 10, 5);
  scheduler_->set_policy(std::make_unique<policies::Fifo>());
  granted(send(TimerFired{}), 2);
  EXPECT_EQ(job(2).reason.code, ReasonCode::none);
}

TEST_F(SchedulerApartTest, WhoWaitedAndIsGoneKeepsNobody) {
  apart(1, 2);
  apart(2, 3);
  start(1, 10, 5);
  start(2, 10, 5);
  start(3, 10, 5);
  granted(send(JobEnded{JobId(2)}), 3);
}

TEST_F(SchedulerApartTest, ALostWorkerLeavesNobodyWaiting) {
  apart(1, 2);
  start(1, 10, 5);
  start(2, 10, 5);
  send(WorkerLost{});
  EXPECT_EQ(job(1).reason.code, ReasonCode::worker_starting);
  EXPECT_EQ(job(2).reason.code, ReasonCode::worker_starting);
}

TEST_F(SchedulerApartTest, ATryOfTwoKeepsTheThirdOut) {
  apart(1, 2, Beside::try_together);
  const Turn first = granted(start(1, 10, 5), 1);
  const Turn third = granted(start(3, 10, 5), 3);
  // Turns that have no bound say nothing of who computes: both end before, the third for the try.
  EXPECT_TRUE(of<GrantTurn>(start(2, 10, 5)).empty());
  EXPECT_EQ(job(2).reason.behind, JobId(3));
  std::vector<Action> actions = end_turn(third.id, TurnEnd::budget, /*more_ready=*/true);
  const Turn second = granted(actions, 2);
  EXPECT_EQ(of<GrantTurn>(actions).size(), 1u) << "job 3 waits for the try";
  EXPECT_TRUE(second.envelope.budget.is_bound());
  EXPECT_EQ(job(3).reason.code, ReasonCode::takes_turns);
  actions = end_turn(first.id, TurnEnd::idle, /*more_ready=*/false);
  actions = end_turn(second.id, TurnEnd::idle, /*more_ready=*/false);
  granted(actions, 3);
}

TEST_F(SchedulerApartTest, TimesAloneAndBesideAreLearntFromTurnsThatWereNearlyAllSo) {
  apart(1, 2);
  Turn first = granted(start(1, 10, 5), 1);
  start(2, 10, 5);
  Turn second = granted(finish(first, 8, 8000, 8000), 2);
  EXPECT_EQ(view_of(1).alone_time.mean(), milliseconds(1));
  first = granted(finish(second, 8, 16000, 16000), 1);
  EXPECT_EQ(view_of(2).alone_time.mean(), milliseconds(2));
  EXPECT_FALSE(scheduler_->view().speeds().sum_of(view_of(1), view_of(2)).has_value());
  // From here on beside each other, one iteration of job 2 taking as long as two of job 1.
  apart(1, 2, Beside::try_together);
  std::vector<Action> actions = finish(first, 4, 4000, 4000);
  first = granted(actions, 1);
  second = granted(actions, 2);
  for (int round = 0; round < 2; ++round) {
    actions = finish(first, 4, 6000, 6000);
    first = granted(actions, 1);
    actions = finish(second, 2, 6000, 0);
    second = granted(actions, 2);
  }
  const auto sum = scheduler_->view().speeds().sum_of(view_of(1), view_of(2));
  ASSERT_TRUE(sum.has_value());
  EXPECT_EQ(*sum, 666 + 666) << "1 / 1.5 of job 1, 2 / 3 of job 2";
  EXPECT_EQ(view_of(1).alone_time.mean(), milliseconds(1)) << "of turns alone only";
}

TEST_F(SchedulerApartTest, ATurnWhileAnIterationWasHeldSaysNothing) {
  Turn turn = granted(start(1, 10, 5), 1);
  send(TurnPaused{turn.id});
  send(TurnResumed{turn.id, microseconds(1)});
  turn = granted(finish(turn, 8, 8000, 8000), 1);
  EXPECT_EQ(view_of(1).alone_time.count, 0u);
  finish(turn, 8, 8000, 8000);
  EXPECT_EQ(view_of(1).alone_time.count, 8u);
}

TEST_F(SchedulerApartTest, ATurnInMixedCompanySaysNothing) {
  apart(1, 2);
  const Turn first = granted(start(1, 10, 5), 1);
  now_ = now_ + microseconds(2000);
  apart(1, 2, Beside::together);
  const Turn second = granted(start(2, 10, 5), 2);
  finish(first, 8, 4000, 2000);
  EXPECT_EQ(view_of(1).alone_time.count, 0u);
  finish(second, 8, 4000, 2000);
  EXPECT_FALSE(scheduler_->view().speeds().sum_of(view_of(1), view_of(2)).has_value());
  EXPECT_EQ(scheduler_->view().speeds().pairs(), 0u) << "job 1 had no bound: it may have waited";
}

TEST_F(SchedulerApartTest, ACoreThatTakesOverKnowsTheTimesThatWereMeasured) {
  std::map<uint64_t, KeepLearnt> learnt;
  const auto turn_of = [&](const std::vector<Action>& actions, uint64_t id) {
    for (const KeepLearnt& action : of<KeepLearnt>(actions)) learnt[action.job.value()] = action;
    return granted(actions, id);
  };
  apart(1, 2);
  Turn first = turn_of(start(1, 10, 5), 1);
  start(2, 10, 5);
  Turn second = turn_of(finish(first, 8, 8000, 8000), 2);
  first = turn_of(finish(second, 8, 16000, 16000), 1);
  apart(1, 2, Beside::try_together);
  std::vector<Action> actions = finish(first, 4, 4000, 4000);
  first = turn_of(actions, 1);
  second = turn_of(actions, 2);
  for (int round = 0; round < 2; ++round) {
    first = turn_of(finish(first, 4, 6000, 6000), 1);
    second = turn_of(finish(second, 2, 6000, 0), 2);
  }
  const policies::Speeds& known = scheduler_->view().speeds();
  const policies::MovingMean one = known.time_of(JobId(1), JobId(2));
  const policies::MovingMean other = known.time_of(JobId(2), JobId(1));
  ASSERT_GT(one.count, 0u);
  ASSERT_GT(other.count, 0u);
  std::vector<ReportedJob> jobs;
  for (const uint64_t id : {1, 2}) {
    ReportedJob job = in_pool(away_at(id, 10, {}), static_cast<int64_t>(id) * 10 - 10);
    job.learnt = learnt.at(id).learnt;
    job.beside = {learnt.at(id).beside, {JobId(id), one}, {JobId(9), one}};
    jobs.push_back(job);
  }
  const policies::MovingMean alone = view_of(1).alone_time;
  jobs[1].learnt.alone.count = 1'000'000;  // no mean that a core makes
  auto policy = std::make_unique<Apart>();
  make(100, 4, 0, std::move(policy));
  restore(std::move(jobs), /*with_lane=*/true);
  const policies::Speeds& speeds = scheduler_->view().speeds();
  EXPECT_EQ(speeds.time_of(JobId(1), JobId(2)), one);
  EXPECT_EQ(speeds.time_of(JobId(2), JobId(1)), other);
  EXPECT_EQ(speeds.pairs(), 1u) << "not with itself, nor with one that is not there";
  EXPECT_EQ(speeds.measured_at(JobId(1), JobId(2)), now_);
  std::map<uint64_t, policies::MovingMean> times;
  for (const policies::JobView* job : scheduler_->view().lane(LaneId(1))->jobs) {
    times[job->id.value()] = job->alone_time;
  }
  EXPECT_EQ(times.at(1), alone);
  EXPECT_EQ(times.at(2), policies::MovingMean());
}

}  // namespace
}  // namespace laneway::lanes
