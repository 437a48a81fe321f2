// What holds for every policy of the registry: nobody waits beyond the bound, for a turn or behind
// those who came later; best effort is last; and with age=off it is the policy's order alone.
#include "policies/common_rules.h"

#include <gtest/gtest.h>

#include "policies/registry.h"
#include "tests/policies/scene.h"

namespace laneway::policies {
namespace {

std::unique_ptr<Policy> make(const std::string& text) {
  auto policy = make_policy(text);
  EXPECT_TRUE(policy.ok()) << text;
  return std::move(policy).value();
}
TimePoint at(int64_t ms) { return TimePoint(milliseconds(ms).ns()); }

// Two jobs, of which every policy prefers the first: it came first, is shorter, has the higher
// priority, the nearer deadline and had nothing yet; and a third between them.
class CommonRulesTest : public testing::TestWithParam<std::string> {
 protected:
  CommonRulesTest() {
    scene_.view.set_pool({.capacity = Bytes(100), .claimed = {}, .largest_free = {}});
    for (const uint64_t id : {1, 2, 3}) {
      JobView& job = scene_.in_lane(id, 1, /*ready=*/true);
      job.persistent = Bytes(10);
      job.options.total_iterations = 10'000 * id;
      job.options.priority = -static_cast<int32_t>(id);
      job.options.deadline = seconds(static_cast<int64_t>(id));
      Scene::set_done(job, 2, milliseconds(5));
      job.ready_since = at(0);
    }
  }
  JobView& job(uint64_t id) {
    return const_cast<JobView&>(*scene_.view.lane(LaneId(1))->jobs[id - 1]);
  }
  PickDecision pick(Policy& policy, int64_t now_ms) const {
    return policy.pick(at(now_ms), scene_.view, scene_.question(1));
  }

  Scene scene_;
};

// Never gives the same answer twice, and needs a candidate.
class Fickle final : public Policy {
 public:
  std::string_view name() const override { return "fickle"; }
  AdmitDecision admit(TimePoint /*now*/, const View& /*view*/) override { return {}; }
  PickDecision pick(TimePoint /*now*/, const View& /*view*/,
                    const PickQuestion& question) override {
    EXPECT_FALSE(question.candidates.empty());
    return {.job = question.candidates.front()->id, .budget = {}};
  }
  EvictDecision evict(TimePoint /*now*/, const View& /*view*/,
                      const EvictQuestion& /*question*/) override {
    return {};
  }
  int64_t urgency(TimePoint /*now*/, const View& /*view*/, const JobView& /*job*/) const override {
    return --urgency_;
  }

 private:
  mutable int64_t urgency_ = 0;
};

TEST_P(CommonRulesTest, ARuleWhoseUrgenciesChangeIsStillAskedToPickSomebody) {
  PolicyOptions options = PolicyOptions::parse("fickle", "age=off").value();
  CommonRules rules(options, std::make_unique<Fickle>());
  EXPECT_EQ(pick(rules, 0).job, JobId(1)) << "the first answer was the highest";
}

TEST_P(CommonRulesTest, WhoWaitedLongEnoughGetsAnIterationBeforeAnybodyElse) {
  const auto policy = make(GetParam() + ":age_s=0.1");
  job(1).ready_since = at(150);
  job(3).ready_since = at(10);
  job(2).ready_since = at(20);
  EXPECT_EQ(pick(*policy, 209).job, JobId(1)) << "the policy's own choice";
  EXPECT_EQ(pick(*policy, 210).job, JobId(3)) << "0.1 s for each of two others";
  EXPECT_EQ(pick(*policy, 500).job, JobId(3)) << "who waited longest is first";
  EXPECT_EQ(pick(*policy, 500).budget.iterations, 1u);
  const auto forgetful = make(GetParam() + ":age=off");
  EXPECT_EQ(pick(*forgetful, 1'000'000).job, JobId(1));
}

TEST_P(CommonRulesTest, ATurnEndsWhenTheNextOneIsDue) {
  const auto policy = make(GetParam() + ":age_s=0.1");
  job(2).ready_since = at(30);
  job(3).ready_since = at(40);
  const PickDecision decision = pick(*policy, 100);
  ASSERT_EQ(decision.job, JobId(1));
  EXPECT_LE(decision.budget.slice, milliseconds(130));
  EXPECT_GT(decision.budget.slice, Duration());
}

TEST_P(CommonRulesTest, AnIterationThatWasDueIsNotTakenBack) {
  const auto policy = make(GetParam() + ":age_s=0.1");
  job(1).ready_since = at(300);
  job(2).ready_since = at(290);
  ASSERT_EQ(pick(*policy, 300).job, JobId(3));
  const PickQuestion asked = scene_.question(1, job(3), milliseconds(1));
  EXPECT_EQ(policy->pick(at(301), scene_.view, asked).job, JobId(3));
}

TEST_P(CommonRulesTest, BestEffortIsLastButNotForEver) {
  const auto policy = make(GetParam() + ":age_s=0.1");
  job(1).options.job_class = JobClass::best_effort;
  EXPECT_EQ(pick(*policy, 0).job, JobId(2));
  job(1).ready_since = at(-1);
  EXPECT_EQ(pick(*policy, 200).job, JobId(1));
  const auto forgetful = make(GetParam() + ":age=off");
  EXPECT_EQ(pick(*forgetful, 1'000'000).job, JobId(2));
  const PickQuestion asked = scene_.question(1, job(1), milliseconds(1));
  EXPECT_EQ(forgetful->pick(at(1), scene_.view, asked).job, JobId(2)) << "nor does it go on";
  for (const uint64_t id : {2, 3}) scene_.view.remove_ready(job(id));
  EXPECT_EQ(pick(*forgetful, 1).job, JobId(1));
}

TEST_P(CommonRulesTest, BestEffortIsLastWhateverItsPriorityAndPlace) {
  const auto policy = make(GetParam() + ":age=off");
  for (const uint64_t id : {1, 2, 3}) {
    const JobOptions before = job(id).options;
    job(id).options.job_class = JobClass::best_effort;
    job(id).options.priority = 9;
    EXPECT_NE(pick(*policy, 0).job, JobId(id));
    job(id).options = before;
  }
}

TEST_P(CommonRulesTest, WhoWaitedLongEnoughInTheQueueIsNotOvertaken) {
  JobView& head = scene_.waiting(4);
  head.options.total_iterations = 1'000'000;
  head.options.priority = -9;
  Scene::set_done(head, 2, milliseconds(5));
  JobView& later = scene_.waiting(5);
  later.options.total_iterations = 3;
  later.options.deadline = seconds(1);
  Scene::set_done(later, 2, milliseconds(5));
  head.tried_version = scene_.view.version();
  const auto policy = make(GetParam() + ":reserve_s=5");
  // The others' work, 300 s, is in front of it, or a part of that.
  constexpr int64_t kReserved = 20 * 300'000 + 1'000;
  EXPECT_FALSE(policy->admit(at(kReserved), scene_.view).job.valid()) << "room is kept for it";
  scene_.view.forget_tries();
  EXPECT_EQ(policy->admit(at(kReserved), scene_.view).job, JobId(4));
}

TEST_P(CommonRulesTest, AgeingTakesATwentiethOfALaneAtMost) {
  const auto policy = make(GetParam() + ":age_s=0.1");
  Scene::set_done(job(3), 20, milliseconds(50));
  job(1).ready_since = job(2).ready_since = at(9'000);
  job(3).ready_since = at(0);
  const int64_t due_ms = job(3).mean_iteration_time().ns() / 1'000'000 * 20 * 2;
  ASSERT_GT(due_ms, 400);
  EXPECT_NE(pick(*policy, due_ms - 50).budget.iterations, 1u) << "20 of its iterations for each";
  EXPECT_EQ(pick(*policy, due_ms + 50).job, JobId(3));
  EXPECT_EQ(pick(*policy, due_ms + 50).budget.iterations, 1u);
}

TEST_P(CommonRulesTest, WhereImagesCanLeaveWhoWaitedLongIsOverdueByWhatSwitchesCost) {
  JobView& head = scene_.waiting(4);
  head.persistent = gib(1);  // two seconds there and back, as long as nothing was measured
  scene_.view.set_pool({.capacity = gib(2), .claimed = {}, .largest_free = {}, .may_leave = true});
  const auto policy = make(GetParam() + ":reserve_s=5");
  EXPECT_FALSE(policy->admit(at(799'000), scene_.view).overdue) << "20 x 20 switches";
  EXPECT_TRUE(policy->admit(at(801'000), scene_.view).overdue);
  EXPECT_EQ(policy->admit(at(801'000), scene_.view).job, JobId(4));
  EXPECT_FALSE(make(GetParam() + ":age=off")->admit(at(801'000), scene_.view).overdue);
}

// It left again at once for the one that goes before it, and would have come back at once.
TEST_P(CommonRulesTest, WhoWasInSinceItWasOverdueIsOverdueNoMore) {
  JobView& head = scene_.waiting(4);
  scene_.view.set_pool({.capacity = gib(2), .claimed = {}, .largest_free = {}, .may_leave = true});
  const auto policy = make(GetParam() + ":reserve_s=5");
  ASSERT_TRUE(policy->admit(at(5'000), scene_.view).overdue);
  scene_.view.remove_waiting(head);
  head.queue = 100;
  head.queued_at = at(5'100);
  scene_.view.add_waiting(head);
  EXPECT_FALSE(policy->admit(at(5'200), scene_.view).overdue);
}

INSTANTIATE_TEST_SUITE_P(All, CommonRulesTest, testing::ValuesIn(policy_names()));

TEST(CommonRules, WithoutAgeingALaterOneOvertakesForEver) {
  Scene scene;
  Scene::set_remaining(scene.waiting(1), 1000, milliseconds(5));
  Scene::set_remaining(scene.waiting(2), 3, milliseconds(5));
  EXPECT_EQ(make("srtf:age=off")->admit(at(1'000'000'000), scene.view).job, JobId(2));
  EXPECT_EQ(make("srtf")->admit(at(1'000'000'000), scene.view).job, JobId(1));
}

}  // namespace
}  // namespace laneway::policies
