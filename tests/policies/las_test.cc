// Las reads like its rule: queues by time had x share of the pool, first come in a queue, a turn up
// to the end of the queue.
#include "policies/las.h"

#include <gtest/gtest.h>

#include "policies/registry.h"
#include "tests/policies/scene.h"

namespace laneway::policies {
namespace {

JobView& job(Scene& scene, uint64_t id, int64_t percent, Duration busy) {
  JobView& view = scene.in_lane(id, 1, /*ready=*/true);
  view.persistent = Bytes(percent);
  view.busy = busy;
  return view;
}

TEST(Las, WhoHadLittleGoesBeforeWhoHadMuchAndSizeCountsLikeTime) {
  Scene scene;
  scene.view.set_pool({.capacity = Bytes(100), .claimed = {}, .largest_free = {}});
  const auto policy = make_policy("las:threshold_s=2").value();
  job(scene, 1, 50, seconds(5));                    // 2.5 s of the pool: second queue
  JobView& small = job(scene, 2, 10, seconds(15));  // 1.5 s of it
  job(scene, 3, 10, seconds(1));
  EXPECT_EQ(scene.picked(*policy), JobId(2)) << "in a queue by arrival";
  small.busy = seconds(21);
  EXPECT_EQ(scene.picked(*policy), JobId(3));
}

TEST(Las, WithoutMemoryAJobIsAsWideAsThePool) {
  Scene scene;
  scene.view.set_pool({.capacity = Bytes(100), .claimed = {}, .largest_free = {}});
  job(scene, 1, 0, seconds(5));
  job(scene, 2, 0, seconds(1));
  EXPECT_EQ(scene.picked(*make_policy("las:threshold_s=2").value()), JobId(2));
}

TEST(Las, WidthOneCountsTimeAlone) {
  Scene scene;
  scene.view.set_pool({.capacity = Bytes(100), .claimed = {}, .largest_free = {}});
  job(scene, 1, 10, seconds(5));
  job(scene, 2, 100, seconds(1));
  EXPECT_EQ(scene.picked(*make_policy("las:threshold_s=2").value()), JobId(1)) << "the same queue";
  EXPECT_EQ(scene.picked(*make_policy("las:threshold_s=2:width=one").value()), JobId(2));
}

TEST(Las, ATurnEndsWhereTheJobFallsIntoTheNextQueue) {
  Scene scene;
  scene.view.set_pool({.capacity = Bytes(100), .claimed = {}, .largest_free = {}});
  PolicyOptions options = PolicyOptions::parse("las", "threshold_s=2").value();
  Las policy(options);
  JobView& only = job(scene, 1, 50, seconds(1));
  const auto slice = [&] {
    return policy.pick(TimePoint(), scene.view, scene.question(1)).budget.slice;
  };
  EXPECT_NEAR(slice().seconds(), 3, 1e-6) << "0.5 s of the pool so far, 1.5 s to go at half of it";
  only.busy = seconds(10);
  EXPECT_NEAR(slice().seconds(), 30, 1e-6) << "20 s is the next";
  only.busy = seconds(100'000);
  EXPECT_EQ(slice(), Duration()) << "the last queue has no end";
}

}  // namespace
}  // namespace laneway::policies
