// Fair, turn by turn against the arithmetic of its source: shares by weight whatever iterations
// take, a newcomer that is owed nothing for before, idle time that is not saved up.
#include "policies/fair.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/policies/scene.h"

namespace laneway::policies {
namespace {

class FairTest : public testing::Test {
 protected:
  // Jobs have work all the time; a turn is as many of the job's iterations as begin in its slice.
  JobView& add(uint64_t id, double weight, int64_t iteration_ms) {
    JobView& job = scene_.in_lane(id, 1, /*ready=*/true);
    job.options.weight = weight;
    iteration_[job.id] = milliseconds(iteration_ms);
    jobs_[job.id] = &job;
    return job;
  }
  // Whose turn it was.
  JobId turn() {
    const PickDecision decision = policy_.pick(TimePoint(), scene_.view, scene_.question(1));
    Duration used;
    while (used < decision.budget.slice) used += iteration_.at(decision.job);
    jobs_.at(decision.job)->busy += used;
    return decision.job;
  }
  double had(uint64_t id) const { return jobs_.at(JobId(id))->busy.seconds(); }

  static PolicyOptions options() { return PolicyOptions::parse("fair", "quantum_s=0.05").value(); }
  PolicyOptions options_ = options();
  Fair policy_{options_};
  Scene scene_;
  std::map<JobId, Duration> iteration_;
  std::map<JobId, JobView*> jobs_;
};

TEST_F(FairTest, SharesDeviceTimeByWeightWhateverIterationsTake) {
  add(1, 1, 30);
  add(2, 2, 1);
  add(3, 4, 7);
  for (int i = 0; i < 2000; ++i) turn();
  // Theorem 1 of the source: times / weights differ by at most the sum of the longest turns /
  // weights.
  const double longest = 0.05 + 0.03;
  EXPECT_NEAR(had(1), had(2) / 2, longest + longest / 2);
  EXPECT_NEAR(had(1), had(3) / 4, longest + longest / 4);
}

TEST_F(FairTest, ANewcomerGetsItsShareAndNoMore) {
  add(1, 1, 10);
  add(2, 1, 10);
  for (int i = 0; i < 1000; ++i) turn();
  const double before = had(1);
  add(3, 1, 10);
  for (int i = 0; i < 300; ++i) turn();
  EXPECT_NEAR(had(3), had(1) - before, 0.05 + 0.01) << "a third each, and nothing to catch up with";
}

TEST_F(FairTest, WhoHadNothingToDoHasSavedNothing) {
  add(1, 1, 10);
  JobView& sleeper = add(2, 1, 10);
  for (int i = 0; i < 10; ++i) turn();
  scene_.view.remove_ready(sleeper);
  for (int i = 0; i < 1000; ++i) turn();
  const double before = had(1);
  const double slept = had(2);
  scene_.view.add_ready(sleeper);
  for (int i = 0; i < 100; ++i) turn();
  EXPECT_NEAR(had(2) - slept, had(1) - before, 0.05 + 0.01);
}

TEST_F(FairTest, ATurnGoesOnForAQuantum) {
  JobView& first = add(1, 1, 10);
  add(2, 1, 10);
  const auto picked = [&](int64_t ran_ms) {
    return policy_.pick(TimePoint(), scene_.view, scene_.question(1, first, milliseconds(ran_ms)))
        .job;
  };
  EXPECT_EQ(turn(), JobId(1));
  EXPECT_EQ(turn(), JobId(2));
  EXPECT_EQ(picked(49), JobId(1));
  EXPECT_EQ(picked(50), JobId(2)) << "what it had in the open turn counts";
}

TEST_F(FairTest, AnotherWeightHoldsFromThenOn) {
  JobView& changed = add(1, 1, 10);
  add(2, 1, 10);
  for (int i = 0; i < 100; ++i) turn();
  changed.options.weight = 3;
  const double first = had(1);
  const double second = had(2);
  for (int i = 0; i < 400; ++i) turn();
  EXPECT_NEAR((had(1) - first) / 3, had(2) - second, 2 * (0.05 + 0.01));
}

}  // namespace
}  // namespace laneway::policies
