// Fair, turn by turn against the arithmetic of its source: shares by weight whatever iterations
// take, a newcomer that is owed nothing for before, idle time that is not saved up.
#include "policies/fair.h"

#include <gtest/gtest.h>

#include <vector>

#include <bit>
#include <limits>
#include <map>

#include "policies/registry.h"
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

TEST_F(FairTest, WhoWasAloneForLongOwesNobody) {
  JobView& old = add(1, 1, 10);
  turn();
  old.busy += seconds(3600);  // a turn without a bound: nobody else wanted one
  add(2, 1, 10);
  const double before = had(1);
  for (int i = 0; i < 100; ++i) turn();
  EXPECT_NEAR(had(2), had(1) - before, 2 * (0.05 + 0.01));
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

TEST_F(FairTest, OneThatIsToldItsNotesGoesOnAsIfItHadBeenThere) {
  add(1, 1, 30);
  add(2, 2, 1);
  JobView& sleeper = add(3, 4, 7);
  std::map<JobId, PolicyNote> notes;
  const auto turn_with_note = [&] {
    const JobId job = turn();  // a note is made before the turn's time is known
    notes[job] = policy_.note(*jobs_.at(job)).value();
    return job;
  };
  for (int i = 0; i < 100; ++i) turn_with_note();
  scene_.view.remove_ready(sleeper);
  for (int i = 0; i < 37; ++i) turn_with_note();
  PolicyOptions same = options();
  Fair next(same);
  for (const auto& [id, note] : notes) next.recall(scene_.view, *jobs_.at(id), note);
  add(4, 1, 5);  // a newcomer, whom the lane's virtual time keeps from having all
  PolicyOptions others = options();
  Fair stranger(others);
  int otherwise = 0;
  for (int i = 0; i < 200; ++i) {
    if (i == 50) scene_.view.add_ready(sleeper);
    const PickQuestion question = scene_.question(1);
    otherwise += stranger.pick(TimePoint(), scene_.view, question).job !=
                 next.pick(TimePoint(), scene_.view, question).job;
    const JobId expected = next.pick(TimePoint(), scene_.view, question).job;
    ASSERT_EQ(turn(), expected) << "turn " << i;
  }
  EXPECT_GT(otherwise, 0) << "one that knows nothing begins otherwise";
}

TEST_F(FairTest, ATagOfAnotherLaneIsNoNote) {
  JobView& one = add(1, 1, 10);
  turn();
  EXPECT_TRUE(policy_.note(one));
  one.lane = LaneId(2);  // and somebody else than the rule gives it a turn there
  EXPECT_FALSE(policy_.note(one));
}

TEST_F(FairTest, NonsenseIsNoNote) {
  JobView& one = add(1, 1, 10);
  one.busy = seconds(5);
  const auto recall = [&](double tag, Duration busy) {
    policy_.recall(scene_.view, one, {std::bit_cast<int64_t>(tag), busy.ns()});
  };
  recall(std::numeric_limits<double>::quiet_NaN(), seconds(1));
  recall(std::numeric_limits<double>::infinity(), seconds(1));
  recall(1e300, seconds(1));
  recall(-1, seconds(1));
  recall(7, seconds(6));  // more than it had
  recall(7, seconds(-1));
  EXPECT_FALSE(policy_.note(one));
  recall(7, seconds(5));
  EXPECT_EQ(policy_.note(one)->first, std::bit_cast<int64_t>(7.0));
}

TEST(Fair, WhoIsAheadLeavesOnceItWasThereForAQuantum) {
  Scene scene;
  scene.in_lane(1, 1, /*ready=*/true).placed_at = TimePoint();
  const auto policy = make_policy("fair:quantum_s=10").value();
  EXPECT_EQ(scene.picked(*policy), JobId(1));
  JobView& running = const_cast<JobView&>(*scene.view.lane(LaneId(1))->jobs.front());
  running.running = true;
  const JobView& wants = scene.waiting(2);
  const std::vector<EvictCandidate> candidates{{&running, /*idle=*/false, /*clean=*/true}};
  const EvictDecision early =
      policy->evict(TimePoint() + seconds(9), scene.view, {wants, candidates});
  EXPECT_FALSE(early.job.valid());
  EXPECT_EQ(early.again, TimePoint() + seconds(10)) << "asked again when the quantum is over";
  EXPECT_EQ(policy->evict(TimePoint() + seconds(10), scene.view, {wants, candidates}).job,
            JobId(1));
}

TEST(Fair, NobodyLeavesForOneThatHadMore) {
  Scene scene;
  JobView& one = scene.in_lane(1, 1, /*ready=*/true);
  JobView& other = scene.in_lane(2, 1, /*ready=*/true);
  const auto policy = make_policy("fair:quantum_s=10").value();
  EXPECT_EQ(scene.picked(*policy), JobId(1));
  one.busy = seconds(30);
  EXPECT_EQ(scene.picked(*policy), JobId(2));
  other.busy = seconds(10);
  other.running = true;
  other.turn_began = TimePoint() + seconds(40);
  const TimePoint now = other.turn_began;
  const std::vector<EvictCandidate> candidates{{&other, /*idle=*/false, /*clean=*/true}};
  const EvictDecision decision = policy->evict(now, scene.view, {one, candidates});
  EXPECT_FALSE(decision.job.valid());
  EXPECT_GE(decision.again, now + seconds(20)) << "when they are equal";
  EXPECT_EQ(policy->evict(now, scene.view, {one, candidates, /*overdue=*/true}).job, JobId(2));
}

}  // namespace
}  // namespace laneway::policies
