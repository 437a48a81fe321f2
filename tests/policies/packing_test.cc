// Packing reads like its rule: what is not known is tried, each job alone and then both together;
// what pays runs together, what does not takes turns; by arrival otherwise.
#include "policies/packing.h"

#include <gtest/gtest.h>

#include "policies/registry.h"
#include "tests/policies/scene.h"

namespace laneway::policies {
namespace {

constexpr TimePoint kNow = TimePoint(seconds(1).ns());

class PackingTest : public testing::Test {
 protected:
  static void know_alone(JobView& job, Duration iteration) { job.alone_time.add(8, iteration * 8); }
  void know_beside(const JobView& job, const JobView& other, Duration iteration) {
    scene_.view.learnt_speeds().add(kNow, job.id, other.id, 8, iteration * 8);
  }
  // Both take 10 ms alone, and so long beside the other.
  void know_pair(Duration first, Duration second) {
    know_alone(one_, milliseconds(10));
    know_alone(two_, milliseconds(10));
    know_beside(one_, two_, first);
    know_beside(two_, one_, second);
  }
  Beside answer(Policy& policy, TimePoint now = kNow) {
    return policy.beside(now, scene_.view, one_, two_);
  }

  Scene scene_;
  JobView& one_ = scene_.in_lane(1, 1, /*ready=*/true);
  JobView& two_ = scene_.in_lane(2, 2, /*ready=*/true);
  Packing policy_;
};

TEST_F(PackingTest, TriesEachAloneThenBothTogether) {
  EXPECT_EQ(answer(policy_), Beside::try_apart);
  know_alone(one_, milliseconds(10));
  EXPECT_EQ(answer(policy_), Beside::try_apart);
  know_alone(two_, milliseconds(10));
  EXPECT_EQ(answer(policy_), Beside::try_together);
  know_beside(one_, two_, milliseconds(12));
  EXPECT_EQ(answer(policy_), Beside::try_together) << "of one of the two nothing is known";
  know_beside(two_, one_, milliseconds(12));
  EXPECT_EQ(answer(policy_), Beside::together);
}

TEST_F(PackingTest, APairPaysWithASumOfSpeedsAboveOneAndTheMargin) {
  know_pair(milliseconds(16), milliseconds(20));
  EXPECT_EQ(answer(policy_), Beside::together) << "10 / 16 + 10 / 20 = 1.125";
  EXPECT_EQ(answer(*make_policy("packing:margin=0.13").value()), Beside::apart);
}

TEST_F(PackingTest, APairThatIsNoFasterTogetherTakesTurns) {
  know_pair(milliseconds(20), milliseconds(20));
  EXPECT_EQ(answer(policy_), Beside::apart) << "exactly one after the other";
}

TEST_F(PackingTest, WhatWasMeasuredLongAgoIsTriedAgainAndNotForEver) {
  know_pair(milliseconds(20), milliseconds(20));
  const TimePoint later = kNow + Speeds::kRetry + milliseconds(1);
  EXPECT_EQ(answer(policy_, later), Beside::try_together);
  for (uint32_t i = 0; i < Speeds::kMostTries; ++i) {
    scene_.view.learnt_speeds().note_try(later, JobId(2), JobId(1));
  }
  EXPECT_EQ(answer(policy_, later), Beside::apart);
}

TEST_F(PackingTest, APairThatCannotBeMeasuredRunsTogetherUntilItIsTriedAgain) {
  for (uint32_t i = 0; i < Speeds::kMostTries; ++i) {
    EXPECT_EQ(answer(policy_), Beside::try_apart);
    scene_.view.learnt_speeds().note_try(kNow, JobId(1), JobId(2));
  }
  EXPECT_EQ(answer(policy_), Beside::together);
  EXPECT_EQ(answer(policy_, kNow + Speeds::kRetry + milliseconds(1)), Beside::try_apart);
}

TEST_F(PackingTest, AnErrorOfTheOracleChangesDecisionsAndStaysTheSameForAPair) {
  know_pair(milliseconds(16), milliseconds(20));
  int apart = 0;
  for (int seed = 1; seed <= 40; ++seed) {
    const auto wrong = make_policy("packing:oracle_error=3:seed=" + std::to_string(seed)).value();
    const Beside first = answer(*wrong);
    EXPECT_EQ(answer(*wrong), first);
    apart += first == Beside::apart;
  }
  EXPECT_GT(apart, 0);
  EXPECT_LT(apart, 40);
}

TEST_F(PackingTest, AdmitsAndPicksByArrival) {
  scene_.waiting(9);
  scene_.waiting(4);
  EXPECT_EQ(policy_.admit(TimePoint(), scene_.view).job, JobId(9));
  scene_.in_lane(7, 1, /*ready=*/true);
  EXPECT_EQ(scene_.picked(policy_), JobId(1));
}

TEST(Speeds, AreForgottenWithTheirJobAndBounded) {
  Speeds speeds;
  for (uint64_t i = 2; i < 2 * Speeds::kMostPairs; ++i) {
    speeds.add(kNow, JobId(i), JobId(1), 1, milliseconds(1));
  }
  EXPECT_EQ(speeds.pairs(), Speeds::kMostPairs);
  speeds.forget(JobId(1));
  EXPECT_EQ(speeds.pairs(), 0u);
}

TEST(Speeds, ASpeedAboveThatAloneIsNoiseAndCountsAsOne) {
  Scene scene;
  JobView& one = scene.in_lane(1, 1, true);
  JobView& two = scene.in_lane(2, 2, true);
  one.alone_time.add(8, milliseconds(80));
  two.alone_time.add(8, milliseconds(80));
  Speeds speeds;
  speeds.add(kNow, one.id, two.id, 8, milliseconds(20));
  EXPECT_FALSE(speeds.sum_of(one, two).has_value());
  speeds.add(kNow, two.id, one.id, 8, milliseconds(800));
  EXPECT_EQ(speeds.sum_of(one, two), 1100);
}

}  // namespace
}  // namespace laneway::policies
