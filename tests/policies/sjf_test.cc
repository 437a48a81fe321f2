// Sjf reads like its rule: the shortest whole job first, and who was begun is not overtaken.
#include "policies/sjf.h"

#include <gtest/gtest.h>

#include <vector>

#include "policies/registry.h"
#include "tests/policies/scene.h"

namespace laneway::policies {
namespace {

// Measured, with a total.
void set(JobView& job, uint64_t total, Duration mean) {
  job.options.total_iterations = total;
  Scene::set_done(job, 2, mean);
}

TEST(Sjf, GoesByTheWholeLengthAndKeepsWhomItBegan) {
  Scene scene;
  JobView& longer = scene.in_lane(1, 1, /*ready=*/true);
  set(longer, 100, milliseconds(1));
  const auto policy = make_policy("sjf").value();
  EXPECT_EQ(scene.picked(*policy), JobId(1));
  JobView& shorter = scene.in_lane(2, 1, /*ready=*/true);
  set(shorter, 10, milliseconds(1));
  EXPECT_EQ(scene.picked(*policy), JobId(1)) << "it was begun";
  scene.view.remove_ready(longer);
  EXPECT_EQ(scene.picked(*policy), JobId(2)) << "while the other has no work";
  policy->gone(JobId(1));
  policy->gone(JobId(2));
  scene.view.add_ready(longer);
  EXPECT_EQ(scene.picked(*policy), JobId(2)) << "a new choice: the shortest";
}

TEST(Sjf, OneThatIsToldItsNotesKeepsWhomTheOtherBegan) {
  Scene scene;
  JobView& longer = scene.in_lane(1, 1, /*ready=*/true);
  set(longer, 100, milliseconds(1));
  const auto policy = make_policy("sjf").value();
  EXPECT_EQ(scene.picked(*policy), JobId(1));
  const PolicyNote kept = policy->note(longer).value();
  JobView& shorter = scene.in_lane(2, 1, /*ready=*/true);
  set(shorter, 10, milliseconds(1));
  const PolicyNote other = policy->note(shorter).value();
  EXPECT_NE(kept, other);
  const auto next = make_policy("sjf").value();
  EXPECT_EQ(next->note(longer), other) << "it knows nobody yet";
  EXPECT_EQ(scene.picked(*make_policy("sjf").value()), JobId(2)) << "one that knows nothing";
  next->recall(scene.view, shorter, other);
  next->recall(scene.view, longer, kept);
  EXPECT_EQ(scene.picked(*next), JobId(1));
  next->gone(JobId(1));
  next->recall(scene.view, longer, {.first = 7, .second = -1});
  EXPECT_EQ(scene.picked(*next), JobId(2)) << "that is no note";
}

TEST(Sjf, WhoWasAloneWhenItWasMeasuredIsBegun) {
  Scene scene;
  JobView& longer = scene.in_lane(1, 1, /*ready=*/true);
  longer.options.total_iterations = 100;
  const auto policy = make_policy("sjf").value();
  EXPECT_EQ(scene.picked(*policy), JobId(1));
  set(longer, 100, milliseconds(1));
  JobView& shorter = scene.in_lane(2, 1, /*ready=*/true);
  shorter.options.total_iterations = 10;
  EXPECT_EQ(scene.picked(*policy), JobId(2)) << "it is measured";
  set(shorter, 10, milliseconds(1));
  EXPECT_EQ(scene.picked(*policy), JobId(1)) << "and waits";
}

TEST(Sjf, WhoComesTogetherWithOthersToIdleLanesIsBegunInItsOwn) {
  Scene scene;
  JobView& longer = scene.in_lane(1, 1, /*ready=*/true);
  longer.options.total_iterations = 100;
  scene.in_lane(2, 2, /*ready=*/true).options.total_iterations = 100;
  const auto policy = make_policy("sjf").value();
  EXPECT_EQ(scene.picked(*policy), JobId(1)) << "for a turn without an end";
  set(longer, 100, milliseconds(1));
  JobView& shorter = scene.waiting(3);
  set(shorter, 10, milliseconds(1));
  const std::vector<EvictCandidate> candidates = scene.may_leave(/*clean=*/true);
  EXPECT_FALSE(policy->evict(TimePoint(), scene.view, {shorter, candidates}).job.valid());
}

TEST(Sjf, WhoIsMeasuredWhileAnotherWaitsElsewhereIsNotBegun) {
  Scene scene;
  JobView& longer = scene.in_lane(1, 1, /*ready=*/true);
  longer.options.total_iterations = 100;
  scene.in_lane(2, 2, /*ready=*/true);
  scene.in_lane(3, 2, /*ready=*/true);
  const auto policy = make_policy("sjf").value();
  EXPECT_EQ(scene.picked(*policy), JobId(1));
  set(longer, 100, milliseconds(1));
  JobView& shorter = scene.in_lane(4, 1, /*ready=*/true);
  set(shorter, 10, milliseconds(1));
  EXPECT_EQ(scene.picked(*policy), JobId(4)) << "the first one was only measured";
}

// Jobs of different numeric contexts never run beside each other: the other one waits.
TEST(Sjf, WhoIsMeasuredWhileOneOfAnotherNumericContextWaitsIsNotBegun) {
  Scene scene;
  JobView& longer = scene.in_lane(1, 1, /*ready=*/true);
  longer.options.total_iterations = 100;
  scene.in_lane(2, 2, /*ready=*/true).context_key = longer.context_key + 1;
  const auto policy = make_policy("sjf").value();
  EXPECT_EQ(scene.picked(*policy), JobId(1));
  set(longer, 100, milliseconds(1));
  JobView& shorter = scene.in_lane(3, 1, /*ready=*/true);
  set(shorter, 10, milliseconds(1));
  EXPECT_EQ(scene.picked(*policy), JobId(3)) << "the first one was only measured";
}

TEST(Sjf, OfTwoThatComeTogetherTheShorterOneIsBegun) {
  Scene scene;
  JobView& longer = scene.in_lane(1, 1, /*ready=*/true);
  JobView& shorter = scene.in_lane(2, 1, /*ready=*/true);
  longer.options.total_iterations = shorter.options.total_iterations = 100;
  const auto policy = make_policy("sjf").value();
  EXPECT_EQ(scene.picked(*policy), JobId(1)) << "it is measured";
  set(longer, 100, milliseconds(1));
  EXPECT_EQ(scene.picked(*policy), JobId(2)) << "and so is this one";
  set(shorter, 10, milliseconds(1));
  EXPECT_EQ(scene.picked(*policy), JobId(2));
}

TEST(Sjf, WhoDidMoreThanItNamedKeepsNothing) {
  Scene scene;
  JobView& liar = scene.in_lane(1, 1, /*ready=*/true);
  set(liar, 3, milliseconds(1));
  const auto policy = make_policy("sjf").value();
  EXPECT_EQ(scene.picked(*policy), JobId(1));
  set(scene.in_lane(2, 1, /*ready=*/true), 100, milliseconds(1));
  Scene::set_done(liar, 1000, milliseconds(1));
  EXPECT_EQ(scene.picked(*policy), JobId(2)) << "100 ms against 1 s and as much again";
}

TEST(Sjf, AdmitsTheShortest) {
  Scene scene;
  Scene::set_remaining(scene.waiting(1), 50, milliseconds(1));
  Scene::set_remaining(scene.waiting(2), 20, milliseconds(1));
  EXPECT_EQ(make_policy("sjf").value()->admit(TimePoint(), scene.view).job, JobId(2));
}

TEST(Sjf, ABegunJobWithWorkDoesNotLeaveForAShorterOne) {
  Scene scene;
  JobView& longer = scene.in_lane(1, 1, /*ready=*/true);
  set(longer, 100, milliseconds(1));
  const auto policy = make_policy("sjf").value();
  EXPECT_EQ(scene.picked(*policy), JobId(1));
  JobView& shorter = scene.waiting(2);
  set(shorter, 10, milliseconds(1));
  const std::vector<EvictCandidate> candidates = scene.may_leave(/*clean=*/true);
  EXPECT_FALSE(policy->evict(TimePoint(), scene.view, {shorter, candidates}).job.valid());
  EXPECT_EQ(policy->evict(TimePoint(), scene.view, {shorter, candidates, true}).job, JobId(1));
}

TEST(Sjf, WhoIsPickedWhileAShorterOneWaitsForMemoryIsNotBegun) {
  Scene scene;
  JobView& longer = scene.in_lane(1, 1, /*ready=*/true);
  set(longer, 100, milliseconds(1));
  JobView& shorter = scene.waiting(2);
  set(shorter, 10, milliseconds(1));
  const auto policy = make_policy("sjf").value();
  EXPECT_EQ(scene.picked(*policy), JobId(1));
  const std::vector<EvictCandidate> candidates = scene.may_leave(/*clean=*/true);
  EXPECT_EQ(policy->evict(TimePoint(), scene.view, {shorter, candidates}).job, JobId(1));
}

TEST(Sjf, NobodyWithWorkLeavesForAJobOfWhichNothingIsKnown) {
  Scene scene;
  set(scene.in_lane(1, 1, /*ready=*/true), 100, milliseconds(1));
  const JobView& unknown = scene.waiting(2);
  const std::vector<EvictCandidate> candidates = scene.may_leave(/*clean=*/true);
  const auto policy = make_policy("sjf").value();
  EXPECT_FALSE(policy->evict(TimePoint(), scene.view, {unknown, candidates}).job.valid());
}

}  // namespace
}  // namespace laneway::policies
