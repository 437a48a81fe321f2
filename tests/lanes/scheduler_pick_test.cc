// What the core makes of a policy's `pick`: the budget bounds the turn, a rival ends it only if the
// policy says so, and the policy hears of jobs that are over.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "policies/policy.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

// The candidate with the highest id, with a budget that the test sets; keeps what it was told.
class Latest final : public policies::Policy {
 public:
  struct Told {
    policies::TurnBudget budget;
    std::vector<JobId> candidates;
    JobId running;
    Duration running_for;
    std::vector<JobId> gone;
  };
  explicit Latest(Told& told) : told_(told) {}

  std::string_view name() const override { return "latest"; }
  policies::AdmitDecision admit(TimePoint now, const policies::View& view) override {
    return fifo_.admit(now, view);
  }
  policies::PickDecision pick(TimePoint, const policies::View&,
                              const policies::PickQuestion& question) override {
    told_.candidates.clear();
    JobId latest;
    for (const policies::JobView* job : question.candidates) {
      told_.candidates.push_back(job->id);
      latest = std::max(latest, job->id);
    }
    told_.running = question.running == nullptr ? JobId() : question.running->id;
    told_.running_for = question.running_for;
    return {.job = latest, .budget = told_.budget};
  }
  policies::EvictDecision evict(TimePoint, const policies::View&,
                                const policies::EvictQuestion&) override {
    return {};
  }
  void gone(JobId job) override { told_.gone.push_back(job); }

 private:
  Told& told_;
  policies::Fifo fifo_;
};

class PickTest : public SchedulerTest {
 protected:
  PickTest() { make(100, 1, 0, std::make_unique<Latest>(told_)); }
  // The bound of job 2's turn when it has one lane with job 1, which waits.
  policies::TurnBudget bound_of_second() {
    const TurnId first = of<GrantTurn>(start(1, 10, 20)).at(0).turn.id;
    start(2, 10, 20);
    const auto granted = of<GrantTurn>(end_turn(first, TurnEnd::budget, /*more_ready=*/true));
    EXPECT_EQ(granted.at(0).turn.job, JobId(2));
    turn_ = granted.at(0).turn.id;
    return granted.at(0).turn.envelope.budget;
  }

  Latest::Told told_;
  TurnId turn_;
};

TEST_F(PickTest, ThePolicysBudgetBoundsATurnWhileOthersWait) {
  told_.budget = {.iterations = 3, .slice = seconds(2)};
  const policies::TurnBudget bound = bound_of_second();
  EXPECT_EQ(bound.iterations, 3u);
  EXPECT_EQ(bound.slice, seconds(2));
  // A turn that is kept open with nothing to run is looked at soon after its slice.
  EXPECT_EQ(scheduler_->next_wakeup(), now_ + seconds(2) + SchedulerConfig().patience);
}

TEST_F(PickTest, WithoutOneTheCoresBudgetDoes) {
  const policies::TurnBudget bound = bound_of_second();
  EXPECT_EQ(bound.iterations, SchedulerConfig().budget.iterations);
  EXPECT_EQ(bound.slice, SchedulerConfig().budget.slice);
}

TEST_F(PickTest, NoTurnIsLongerThanTheCoreAllows) {
  told_.budget = {.iterations = 0, .slice = Duration(INT64_MAX)};
  EXPECT_EQ(bound_of_second().slice, SchedulerConfig().longest_slice);
  EXPECT_EQ(scheduler_->policy_faults(), 0u);
}

TEST_F(PickTest, ABudgetOfLessThanNothingIsRefused) {
  told_.budget = {.iterations = 2, .slice = Duration(-1)};
  const uint64_t before = scheduler_->policy_faults();
  EXPECT_EQ(bound_of_second().slice, SchedulerConfig().budget.slice);
  EXPECT_GT(scheduler_->policy_faults(), before);
}

TEST_F(PickTest, ARivalEndsTheTurnOnlyIfThePolicySaysSo) {
  bound_of_second();
  for (const uint64_t id : {3, 4}) {
    offer(id, 5, 5);
    place(id);
  }
  now_ = now_ + milliseconds(3);
  end_turn(turn_, TurnEnd::budget, /*more_ready=*/true);  // granted again
  const TimePoint granted = now_;
  now_ = now_ + milliseconds(7);
  EXPECT_EQ(of<RecallTurn>(ready(3)).size(), 1u);
  EXPECT_EQ(told_.candidates, (std::vector<JobId>{JobId(1), JobId(2), JobId(3)}));
  EXPECT_EQ(told_.running, JobId(2));
  EXPECT_EQ(told_.running_for, now_ - granted);
  EXPECT_TRUE(of<RecallTurn>(ready(4)).empty()) << "it was asked already";
}

TEST_F(PickTest, ALesserRivalEndsNothing) {
  offer(1, 10, 20);
  place(1);
  const TurnId first = of<GrantTurn>(start(2, 10, 20)).at(0).turn.id;
  start(3, 10, 20);
  const auto third = of<GrantTurn>(end_turn(first, TurnEnd::budget, /*more_ready=*/true));
  ASSERT_EQ(third.at(0).turn.job, JobId(3));
  EXPECT_TRUE(of<RecallTurn>(ready(1)).empty());
  EXPECT_EQ(told_.running, JobId(3));
  EXPECT_EQ(told_.candidates.size(), 3u);
}

TEST_F(PickTest, ThePolicyHearsOfJobsThatAreOver) {
  start(1, 10, 20);
  offer(2, 95, 1);
  send(JobEnded{JobId(2)});
  EXPECT_EQ(told_.gone, std::vector<JobId>{JobId(2)});
  send(JobEnded{JobId(1)});
  EXPECT_EQ(told_.gone.size(), 1u) << "its turn is open";
  end_turn(TurnId(1), TurnEnd::idle, false);
  EXPECT_EQ(told_.gone.back(), JobId(1));
}

}  // namespace
}  // namespace laneway::lanes
