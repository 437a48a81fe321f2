// Advised reads like its rule: the order that its adviser says, in which who has none comes last;
// fifo while there is no adviser.
#include "policies/advised.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/policies/scene.h"

namespace laneway::policies {
namespace {

constexpr TimePoint kThen = TimePoint(seconds(1000).ns());

class AdvisedTest : public testing::Test {
 protected:
  AdvisedTest() { policy_.set_adviser(true); }
  bool advise(const JobView& job, const JobAdvice& advice) {
    return policy_.advise(kThen, scene_.view, job, advice);
  }
  JobId picked(TimePoint now = kThen) {
    return policy_.pick(now, scene_.view, scene_.question(1)).job;
  }

  Scene scene_;
  Advised policy_{"./mine.py"};
};

TEST_F(AdvisedTest, WithoutAnAdviserTheEarliestGoesFirst) {
  scene_.in_lane(1, 1, /*ready=*/true);
  const JobView& later = scene_.in_lane(2, 1, /*ready=*/true);
  advise(later, {.value = -1});
  ASSERT_EQ(picked(), JobId(2));
  policy_.set_adviser(false);
  EXPECT_EQ(picked(), JobId(1));
  policy_.set_adviser(true);
  EXPECT_EQ(picked(), JobId(1)) << "another adviser has not said anything yet";
}

TEST_F(AdvisedTest, TheLowestValueGoesFirstAndWhoHasNoneLast) {
  scene_.in_lane(1, 1, /*ready=*/true);
  const JobView& second = scene_.in_lane(2, 1, /*ready=*/true);
  const JobView& third = scene_.in_lane(3, 1, /*ready=*/true);
  EXPECT_EQ(picked(), JobId(1)) << "nobody has a rank: by arrival";
  advise(second, {.value = 1e300});
  EXPECT_EQ(picked(), JobId(2));
  advise(third, {.value = -0.5});
  EXPECT_EQ(picked(), JobId(3));
  advise(second, {.value = -2});
  EXPECT_EQ(picked(), JobId(2)) << "below zero the larger number is the higher rank too";
}

TEST_F(AdvisedTest, EqualOnesGoByArrivalAndZeroHasNoSign) {
  const JobView& first = scene_.in_lane(1, 1, /*ready=*/true);
  const JobView& second = scene_.in_lane(2, 1, /*ready=*/true);
  advise(first, {.value = 0.0});
  advise(second, {.value = -0.0});
  EXPECT_EQ(picked(), JobId(1));
}

TEST_F(AdvisedTest, SaysWhetherThePlaceIsAnotherOne) {
  const JobView& job = scene_.in_lane(1, 1, /*ready=*/true);
  EXPECT_TRUE(advise(job, {.value = 3}));
  EXPECT_FALSE(advise(job, {.value = 3, .slice = seconds(1)}));
  EXPECT_TRUE(advise(job, {.value = 3, .per_busy_s = 1})) << "it will be";
  EXPECT_TRUE(advise(job, {.value = 4}));
}

TEST_F(AdvisedTest, ARankFollowsTheDeviceTimeThatTheAdviserDidNotKnowOf) {
  JobView& first = scene_.in_lane(1, 1, /*ready=*/true);
  const JobView& second = scene_.in_lane(2, 1, /*ready=*/true);
  first.busy = seconds(7);
  advise(first, {.value = 10, .per_busy_s = -1, .busy = seconds(5)});  // 8
  advise(second, {.value = 9});
  EXPECT_EQ(picked(), JobId(1));
  advise(second, {.value = 7.5});
  EXPECT_EQ(picked(), JobId(2));
  // What an open turn took counts too.
  first.running = true;
  first.turn_began = kThen;
  EXPECT_EQ(picked(kThen + seconds(1)), JobId(1));
}

TEST_F(AdvisedTest, ARankFollowsTheWaitThatTheAdviserDidNotKnowOf) {
  JobView& first = scene_.in_lane(1, 1, /*ready=*/true);
  JobView& second = scene_.in_lane(2, 1, /*ready=*/true);
  first.ready_since = second.ready_since = kThen;
  advise(first, {.value = 0});
  advise(second, {.value = 5, .per_wait_s = -2});
  EXPECT_EQ(picked(kThen + seconds(2)), JobId(1));
  EXPECT_EQ(picked(kThen + seconds(3)), JobId(2));
}

TEST_F(AdvisedTest, TurnsLastForTheSliceOfWhoRuns) {
  const JobView& first = scene_.in_lane(1, 1, /*ready=*/true);
  const JobView& second = scene_.in_lane(2, 1, /*ready=*/true);
  advise(first, {.value = 1, .slice = milliseconds(3)});
  advise(second, {.value = 2});
  const auto budget = [&] { return policy_.pick(kThen, scene_.view, scene_.question(1)).budget; };
  EXPECT_EQ(budget().slice, milliseconds(3));
  advise(second, {.value = 0});
  EXPECT_FALSE(budget().is_bound());
}

// Its sums can be no number though each of them is one.
TEST_F(AdvisedTest, WhatComesToNoNumberIsLast) {
  const double most = std::numeric_limits<double>::max();
  JobView& first = scene_.in_lane(1, 1, /*ready=*/true);
  scene_.in_lane(2, 1, /*ready=*/true);
  const JobView& third = scene_.in_lane(3, 1, /*ready=*/true);
  first.busy = seconds(9);
  first.ready_since = TimePoint();
  advise(first, {.value = 0, .per_busy_s = most, .per_wait_s = -most});
  advise(third, {.value = most});
  EXPECT_EQ(picked(), JobId(3));
}

TEST_F(AdvisedTest, TheLowestIsAdmittedAndOthersWaitBehindIt) {
  scene_.waiting(1);
  JobView& second = scene_.waiting(2);
  advise(second, {.value = -1});
  EXPECT_EQ(policy_.admit(kThen, scene_.view).job, JobId(2));
  second.tried_version = scene_.view.version();
  const AdmitDecision nobody = policy_.admit(kThen, scene_.view);
  EXPECT_FALSE(nobody.job.valid());
}

// Nothing happens, and the order is another one all the same.
TEST_F(AdvisedTest, SaysWhenAnotherOneIsTheFirstOfThoseThatWait) {
  JobView& first = scene_.waiting(1);
  JobView& second = scene_.waiting(2);
  first.queued_at = second.queued_at = kThen;
  advise(first, {.value = 0});
  advise(second, {.value = 6, .per_wait_s = -2});
  first.tried_version = scene_.view.version();
  EXPECT_EQ(policy_.admit(kThen, scene_.view).again, kThen + seconds(3));
  EXPECT_EQ(policy_.admit(kThen + seconds(4), scene_.view).job, JobId(2));
}

TEST_F(AdvisedTest, IsNotAskedAgainBeforeWhatIsAddedToLargeRanksIsSomething) {
  JobView& first = scene_.waiting(1);
  JobView& second = scene_.waiting(2);
  first.queued_at = second.queued_at = kThen;
  advise(first, {.value = 1e18});
  advise(second, {.value = 1e18, .per_wait_s = -1});
  first.tried_version = scene_.view.version();
  EXPECT_EQ(policy_.admit(kThen, scene_.view).again, kThen + seconds(128));
}

TEST_F(AdvisedTest, SaysWhenSomebodyMayGoBehindTheOneThatWantsIn) {
  JobView& inside = scene_.in_lane(1, 1, /*ready=*/true);
  JobView& wants = scene_.waiting(2);
  inside.ready_since = wants.queued_at = kThen;
  advise(inside, {.value = 1, .per_busy_s = 0.5});
  advise(wants, {.value = 2});
  const auto evicts = [&](TimePoint now) {
    const std::vector<EvictCandidate> may_leave = scene_.may_leave(/*clean=*/false);
    return policy_.evict(now, scene_.view, {.wants = wants, .candidates = may_leave});
  };
  EXPECT_FALSE(evicts(kThen).job.valid());
  EXPECT_EQ(evicts(kThen).again, kThen + seconds(2));
  inside.busy = seconds(3);
  EXPECT_EQ(evicts(kThen).job, JobId(1));
}

}  // namespace
}  // namespace laneway::policies
