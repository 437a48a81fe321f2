// Scenes with a policy from outside: what its adviser says acts with the same event, and it is told
// of every job of which something has changed; without it the core goes on as fifo.
#include <limits>

#include "policies/advised.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class SchedulerAdvisedTest : public SchedulerTest {
 protected:
  SchedulerAdvisedTest() { make(100, 1, 0, std::make_unique<policies::Advised>("./mine.py")); }

  std::vector<Action> come() { return send(AdviserChanged{AdviserNews::came}); }
  std::vector<Action> advise(uint64_t id, double value) {
    return send(Advice{JobId(id), {.value = value}});
  }
  // Jobs 1 and 2 have work in one lane, and job 1, of rank 1, a turn that has a bound.
  void both_have_work() {
    come();
    start(1, 10, 10);
    const auto recalled = of<RecallTurn>(start(2, 10, 10));
    ASSERT_EQ(recalled.size(), 1u);
    advise(1, 1);
    const auto next = of<GrantTurn>(end_turn(recalled[0].turn, TurnEnd::budget, true));
    ASSERT_EQ(next.size(), 1u);
    ASSERT_EQ(next[0].turn.job, JobId(1)) << "job 2 has no rank";
  }
  // Of whom the actions tell, in order; over: 0 less its id.
  static std::vector<int64_t> told(const std::vector<Action>& actions) {
    std::vector<int64_t> jobs;
    for (const TellPolicy& news : of<TellPolicy>(actions)) {
      const auto id = static_cast<int64_t>(news.facts.job.value());
      jobs.push_back(news.gone ? -id : id);
    }
    return jobs;
  }
  static JobFacts facts(const std::vector<Action>& actions) {
    const auto news = of<TellPolicy>(actions);
    EXPECT_EQ(news.size(), 1u);
    return news.empty() ? JobFacts() : news[0].facts;
  }
};

using Told = std::vector<int64_t>;

TEST_F(SchedulerAdvisedTest, NobodyIsToldAndFifoDecidesUntilAnAdviserIsThere) {
  EXPECT_EQ(told(offer(1, 60, 30)), Told());
  EXPECT_EQ(told(offer(2, 60, 30)), Told());
  advise(2, -1);
  const auto admitted = of<AdmitJob>(send(JobEnded{.job = JobId(1), .cancelled = false}));
  ASSERT_EQ(admitted.size(), 1u);
  offer(3, 60, 30);
  EXPECT_EQ(told(come()), (Told{2, 3})) << "it knows nothing: all are told";
}

TEST_F(SchedulerAdvisedTest, IsToldOfWhomSomethingHasChanged) {
  come();
  EXPECT_EQ(facts(offer(1, 40, 30)).state, JobState::staged);
  EXPECT_EQ(facts(place(1)).state, JobState::resident);
  const auto granted = ready(1);
  const JobFacts running = facts(granted);
  EXPECT_EQ(running.state, JobState::running);
  EXPECT_EQ(running.lane, LaneId(1));
  EXPECT_EQ(running.persistent, units(40));
  EXPECT_EQ(running.arrival, 1u);
  EXPECT_EQ(running.remaining, JobFacts::kUnknown);
  EXPECT_EQ(told(offer(2, 10, 10)), Told{2}) << "of job 1 there is nothing new";
  const auto turn = of<GrantTurn>(granted)[0].turn.id;
  const JobFacts after = facts(end_turn(turn, TurnEnd::idle, /*more_ready=*/false));
  EXPECT_EQ(after.job, JobId(1));
  EXPECT_EQ(after.iterations, 1u);
  EXPECT_EQ(after.busy, microseconds(10));
  EXPECT_EQ(told(send(ImageDirty{JobId(1)})), Told()) << "no rank follows from that";
  EXPECT_EQ(told(send(TimerFired{})), Told());
  EXPECT_EQ(told(send(JobEnded{.job = JobId(1), .cancelled = false})), Told{-1});
  EXPECT_EQ(told(send(AdviserChanged{AdviserNews::asks})), Told{2});
}

TEST_F(SchedulerAdvisedTest, OfARefusedJobThatWasNeverToldNothingIsSaid) {
  come();
  EXPECT_EQ(told(offer(1, 600, 30)), Told());
}

TEST_F(SchedulerAdvisedTest, TheWaitOfAJobIsToldAsItIs) {
  come();
  offer(1, 60, 30);
  const auto queued = offer(2, 60, 30);
  EXPECT_EQ(facts(queued).waiting, Duration());
  now_ = now_ + seconds(5);
  const auto all = of<TellPolicy>(send(AdviserChanged{AdviserNews::asks}));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].facts.waiting, Duration()) << "it is in, and has no work";
  EXPECT_EQ(all[1].facts.waiting, seconds(5) + microseconds(20));
}

TEST_F(SchedulerAdvisedTest, AdviceActsWithItsEvent) {
  come();
  offer(1, 60, 30);
  offer(2, 60, 30);
  offer(3, 60, 30);
  advise(2, 5);
  advise(3, 4);
  const auto admitted = of<AdmitJob>(send(JobEnded{.job = JobId(1), .cancelled = false}));
  ASSERT_EQ(admitted.size(), 1u);
  EXPECT_EQ(admitted[0].job, JobId(3));
}

TEST_F(SchedulerAdvisedTest, ARunningJobGivesWayToOneThatGoesBeforeIt) {
  both_have_work();
  const auto recalled = of<RecallTurn>(advise(2, 0));
  ASSERT_EQ(recalled.size(), 1u);
  const auto next = of<GrantTurn>(end_turn(recalled[0].turn, TurnEnd::budget, true));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].turn.job, JobId(2));
}

TEST_F(SchedulerAdvisedTest, WhenTheAdviserIsGoneTheEarliestGoesFirstAgain) {
  both_have_work();
  const auto recalled = of<RecallTurn>(advise(2, 0));
  ASSERT_EQ(recalled.size(), 1u);
  end_turn(recalled[0].turn, TurnEnd::budget, true);
  const auto back = of<RecallTurn>(send(AdviserChanged{AdviserNews::gone}));
  ASSERT_EQ(back.size(), 1u);
  const auto actions = end_turn(back[0].turn, TurnEnd::budget, true);
  EXPECT_EQ(of<GrantTurn>(actions)[0].turn.job, JobId(1));
  EXPECT_EQ(told(actions), Told()) << "nobody is there to be told";
}

TEST_F(SchedulerAdvisedTest, NonsenseIsCountedAndChangesNothing) {
  come();
  offer(1, 10, 10);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const policies::JobAdvice& advice : {policies::JobAdvice{.value = nan},
                                            {.per_busy_s = nan},
                                            {.per_wait_s = 1 / 0.0},
                                            {.slice = Duration(-1)}}) {
    send(Advice{JobId(1), advice});
  }
  EXPECT_EQ(scheduler_->policy_faults(), 4u);
  advise(7, 1);
  EXPECT_EQ(scheduler_->snapshot().ignored_events, 1u) << "there is no job 7";
}

TEST_F(SchedulerAdvisedTest, ANewPolicyHasNoAdviserYet) {
  come();
  offer(1, 10, 10);
  scheduler_->set_policy(std::make_unique<policies::Advised>("./other.py"));
  EXPECT_EQ(told(send(TimerFired{})), Told());
  EXPECT_EQ(told(come()), Told{1});
}

TEST_F(SchedulerAdvisedTest, OtherPoliciesHearNothingOfAdvisers) {
  make(100, 1);
  offer(1, 10, 10);
  EXPECT_EQ(told(come()), Told());
  EXPECT_EQ(scheduler_->snapshot().ignored_events, 1u);
}

TEST_F(SchedulerAdvisedTest, ACoreThatTakesOverTellsAllJobs) {
  store_ = units(100);
  make(100, 1, 0, std::make_unique<policies::Advised>("./mine.py"));
  come();
  EXPECT_EQ(told(restore({away_at(4, 10, {Tier::store, units(0)})})), Told{4});
}

}  // namespace
}  // namespace laneway::lanes
