// Fifo reads like its rule: the earliest is admitted or nobody is, the earliest with work runs, and
// whoever is used least leaves.
#include "policies/fifo.h"

#include <gtest/gtest.h>

#include <vector>

#include "policies/registry.h"
#include "tests/policies/scene.h"

namespace laneway::policies {
namespace {

TEST(Fifo, AdmitsTheEarliestThatWaits) {
  Scene scene;
  scene.waiting(7);
  scene.waiting(3);
  const AdmitDecision decision = Fifo().admit(TimePoint(), scene.view);
  EXPECT_EQ(decision.job, JobId(7)) << "7 was offered first";
  EXPECT_FALSE(decision.lane.valid());
  EXPECT_TRUE(decision.may_share);
}

TEST(Fifo, AdmitsNobodyWhileTheHeadFoundNoRoom) {
  Scene scene;
  JobView& head = scene.waiting(7);
  scene.waiting(3);
  head.tried_version = scene.view.version();
  EXPECT_FALSE(Fifo().admit(TimePoint(), scene.view).job.valid());
  scene.view.forget_tries();
  EXPECT_EQ(Fifo().admit(TimePoint(), scene.view).job, JobId(7));
}

TEST(Fifo, AdmitsNobodyWhenNobodyWaits) {
  Scene scene;
  EXPECT_FALSE(Fifo().admit(TimePoint(), scene.view).job.valid());
}

TEST(Fifo, FillsGapsOnlyWhenAskedTo) {
  Scene scene;
  scene.waiting(7).tried_version = scene.view.version();
  scene.waiting(3);
  const auto filling = make_policy("fifo:admit=fit");
  EXPECT_EQ(filling.value()->admit(TimePoint(), scene.view).job, JobId(3));
  const auto strict = make_policy("fifo:admit=strict");
  EXPECT_FALSE(strict.value()->admit(TimePoint(), scene.view).job.valid());
}

TEST(Fifo, ByRequestWhoseWorkWaitedLongestGetsOneIteration) {
  Scene scene;
  JobView& first = scene.in_lane(1, 1, /*ready=*/true);
  first.ready_since = TimePoint(30);
  scene.in_lane(2, 1, /*ready=*/true).ready_since = TimePoint(20);
  scene.in_lane(3, 1, /*ready=*/true).ready_since = TimePoint(20);
  const auto policy = make_policy("fifo:by=request");
  PickQuestion question = scene.question(1);
  const PickDecision decision = policy.value()->pick(TimePoint(40), scene.view, question);
  EXPECT_EQ(decision.job, JobId(2));
  EXPECT_EQ(decision.budget.iterations, 1u);
  question.running = &first;
  EXPECT_EQ(policy.value()->pick(TimePoint(40), scene.view, question).job, JobId(1))
      << "what runs was there before";
}

TEST(Fifo, PicksTheEarliestThatIsReady) {
  Scene scene;
  scene.in_lane(1, 1, /*ready=*/false);
  scene.in_lane(2, 1, /*ready=*/true);
  scene.in_lane(3, 1, /*ready=*/true);
  EXPECT_EQ(Fifo().pick(TimePoint(), scene.view, scene.question(1)).job, JobId(2));
}

TEST(Fifo, EvictsWhoIsUsedLeast) {
  Scene scene;
  scene.in_lane(1, 1, /*ready=*/false).used_at = TimePoint(50);
  scene.in_lane(2, 2, /*ready=*/false).used_at = TimePoint(20);
  const std::vector<EvictCandidate> candidates = scene.may_leave(/*clean=*/true);
  EXPECT_EQ(Fifo().evict(TimePoint(100), scene.view, {scene.waiting(3), candidates}).job, JobId(2));
}

}  // namespace
}  // namespace laneway::policies
