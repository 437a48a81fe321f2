// Srtf reads like its rule: shortest remaining time first, newcomers measured before that, ties by
// arrival; the same order for admission; the longest leaves.
#include "policies/srtf.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/policies/scene.h"

namespace laneway::policies {
namespace {

TEST(Srtf, AdmitsTheShortest) {
  Scene scene;
  Scene::set_remaining(scene.waiting(2), 10, milliseconds(5));
  JobView& shortest = scene.waiting(3);
  Scene::set_remaining(shortest, 40, milliseconds(1));
  Srtf policy;
  EXPECT_EQ(policy.admit(TimePoint(), scene.view).job, JobId(3)) << "40 ms against 50 ms";
  scene.view.remove_waiting(shortest);
  EXPECT_EQ(policy.admit(TimePoint(), scene.view).job, JobId(2));
}

TEST(Srtf, AdmitsNobodyWhileTheShortestFoundNoRoom) {
  Scene scene;
  Scene::set_remaining(scene.waiting(1), 10, milliseconds(5));
  JobView& shortest = scene.waiting(2);
  Scene::set_remaining(shortest, 1, milliseconds(5));
  shortest.tried_version = scene.view.version();
  EXPECT_FALSE(Srtf().admit(TimePoint(), scene.view).job.valid());
}

TEST(Srtf, PicksByMeasuredTime) {
  Scene scene;
  JobView& first = scene.in_lane(1, 1, /*ready=*/true);
  JobView& second = scene.in_lane(2, 1, /*ready=*/true);
  Scene::set_done(second, 10, milliseconds(5));
  Scene::set_remaining(second, 30, milliseconds(9));  // 150 ms, whatever was estimated
  Scene::set_done(first, 10, milliseconds(1));
  Scene::set_remaining(first, 90, milliseconds(1));  // 90 ms
  Srtf policy;
  EXPECT_EQ(scene.picked(policy), JobId(1));
  first.counted_time = {};
  Scene::set_done(first, 10, milliseconds(2));  // 180 ms
  EXPECT_EQ(scene.picked(policy), JobId(2));
}

TEST(Srtf, ANewcomerIsMeasuredBeforeAnybodyElsesTurn) {
  Scene scene;
  JobView& old = scene.in_lane(1, 1, /*ready=*/true);
  Scene::set_done(old, 10, milliseconds(1));
  Scene::set_remaining(old, 1, milliseconds(1));
  JobView& newcomer = scene.in_lane(2, 1, /*ready=*/true);
  Scene::set_remaining(newcomer, 1'000'000, seconds(1));
  Srtf policy;
  const PickDecision measured = policy.pick(TimePoint(), scene.view, scene.question(1));
  EXPECT_EQ(measured.job, JobId(2));
  EXPECT_EQ(measured.budget.iterations, 2u) << "a probe, and one to go by";
  Scene::set_done(newcomer, 2, seconds(1));
  EXPECT_EQ(scene.picked(policy), JobId(1));
}

TEST(Srtf, BreaksTiesByArrival) {
  Scene scene;
  for (const uint64_t id : {9, 4}) {
    JobView& job = scene.in_lane(id, 1, /*ready=*/true);
    Scene::set_done(job, 2, milliseconds(2));
    Scene::set_remaining(job, 5, milliseconds(2));
  }
  Srtf policy;
  EXPECT_EQ(scene.picked(policy), JobId(9));
}

TEST(Srtf, EvictsIdleJobsThenTheLongestAndNoneForALongerOne) {
  Scene scene;
  Scene::set_remaining(scene.in_lane(1, 1, /*ready=*/false), 10, milliseconds(1));
  Scene::set_remaining(scene.in_lane(2, 2, /*ready=*/true), 20, milliseconds(1));
  Scene::set_remaining(scene.in_lane(3, 2, /*ready=*/true), 90, milliseconds(1));
  JobView& wants = scene.waiting(4);
  Scene::set_remaining(wants, 30, milliseconds(1));
  std::vector<EvictCandidate> candidates = scene.may_leave(/*clean=*/true);
  EXPECT_EQ(Srtf().evict(TimePoint(), scene.view, {wants, candidates}).job, JobId(1));
  candidates.erase(candidates.begin());
  EXPECT_EQ(Srtf().evict(TimePoint(), scene.view, {wants, candidates}).job, JobId(3));
  candidates.pop_back();
  EXPECT_FALSE(Srtf().evict(TimePoint(), scene.view, {wants, candidates}).job.valid());
}

}  // namespace
}  // namespace laneway::policies
