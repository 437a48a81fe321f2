// Srtf reads like its rule: shortest remaining time first, unknown last, ties by arrival; the same
// order for admission; the longest leaves.
#include "policies/srtf.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/policies/scene.h"

namespace laneway::policies {
namespace {

TEST(Srtf, AdmitsTheShortestAndUnknownOnesLast) {
  Scene scene;
  scene.waiting(1);  // unknown
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

TEST(Srtf, PicksByMeasuredTimeOnceThereIsOne) {
  Scene scene;
  JobView& first = scene.in_lane(1, 1, /*ready=*/true);
  Scene::set_remaining(first, 100, milliseconds(1));  // says 100 ms
  Scene::set_remaining(scene.in_lane(2, 1, /*ready=*/true), 30, milliseconds(5));
  EXPECT_EQ(Srtf().pick(TimePoint(), scene.view, scene.question(1)).job, JobId(1));
  first.iterations = 10;
  first.busy = milliseconds(20);  // it is 2 ms each: 90 are left, 180 ms
  first.update_remaining();
  EXPECT_EQ(first.remaining(), milliseconds(180));
  EXPECT_EQ(Srtf().pick(TimePoint(), scene.view, scene.question(1)).job, JobId(2)) << "150 ms";
}

TEST(Srtf, BreaksTiesByArrival) {
  Scene scene;
  Scene::set_remaining(scene.in_lane(9, 1, /*ready=*/true), 10, milliseconds(1));
  Scene::set_remaining(scene.in_lane(4, 1, /*ready=*/true), 5, milliseconds(2));
  EXPECT_EQ(Srtf().pick(TimePoint(), scene.view, scene.question(1)).job, JobId(9));
  Scene unknown;
  unknown.in_lane(9, 1, /*ready=*/true);
  unknown.in_lane(4, 1, /*ready=*/true);
  EXPECT_EQ(Srtf().pick(TimePoint(), unknown.view, unknown.question(1)).job, JobId(9));
}

TEST(Srtf, EvictsIdleJobsThenTheLongestAndNoneForALongerOne) {
  Scene scene;
  Scene::set_remaining(scene.in_lane(1, 1, /*ready=*/false), 10, milliseconds(1));
  Scene::set_remaining(scene.in_lane(2, 2, /*ready=*/true), 20, milliseconds(1));
  Scene::set_remaining(scene.in_lane(3, 2, /*ready=*/true), 90, milliseconds(1));
  JobView& wants = scene.waiting(4);
  Scene::set_remaining(wants, 30, milliseconds(1));
  std::vector<EvictCandidate> candidates = scene.may_leave(/*clean=*/true);
  EXPECT_EQ(Srtf().evict(TimePoint(), scene.view, {wants, candidates}), JobId(1));
  candidates.erase(candidates.begin());
  EXPECT_EQ(Srtf().evict(TimePoint(), scene.view, {wants, candidates}), JobId(3));
  candidates.pop_back();
  EXPECT_FALSE(Srtf().evict(TimePoint(), scene.view, {wants, candidates}).valid());
}

}  // namespace
}  // namespace laneway::policies
