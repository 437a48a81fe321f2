// Priority reads like its rule: the highest first, ties by arrival; the lowest leaves.
#include "policies/priority.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/policies/scene.h"

namespace laneway::policies {
namespace {

TEST(Priority, TheHighestGoesFirstAndTheLowestLeaves) {
  Scene scene;
  scene.in_lane(1, 1, /*ready=*/true).options.priority = -3;
  scene.in_lane(2, 1, /*ready=*/true).options.priority = 4;
  scene.in_lane(3, 1, /*ready=*/true).options.priority = 4;
  JobView& wants = scene.waiting(4);
  scene.waiting(5).options.priority = 1;
  Priority policy;
  EXPECT_EQ(scene.picked(policy), JobId(2));
  EXPECT_EQ(policy.admit(TimePoint(), scene.view).job, JobId(5));
  const std::vector<EvictCandidate> candidates = scene.may_leave(/*clean=*/true);
  EXPECT_EQ(policy.evict(TimePoint(), scene.view, {wants, candidates}).job, JobId(1));
  wants.options.priority = -4;
  EXPECT_FALSE(policy.evict(TimePoint(), scene.view, {wants, candidates}).job.valid());
}

TEST(Priority, AmongEqualOnesTheLatestLeavesHoweverLongItWasThere) {
  Scene scene;
  scene.in_lane(1, 1, /*ready=*/true).placed_at = TimePoint(9);
  scene.in_lane(2, 1, /*ready=*/true).placed_at = TimePoint(5);
  scene.in_lane(3, 1, /*ready=*/true).placed_at = TimePoint(7);
  const std::vector<EvictCandidate> candidates = scene.may_leave(/*clean=*/true);
  JobView& wants = scene.waiting(4);
  EXPECT_FALSE(Priority().evict(TimePoint(), scene.view, {wants, candidates}).job.valid());
  wants.options.priority = 1;
  EXPECT_EQ(Priority().evict(TimePoint(), scene.view, {wants, candidates}).job, JobId(3));
}

}  // namespace
}  // namespace laneway::policies
