// The view keeps its orders and its cached remaining times right, whatever numbers clients send.
#include "policies/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/policies/scene.h"
#include "tests/support/seed.h"

namespace laneway::policies {
namespace {

TEST(View, KeepsJobsByArrivalWhateverTheOrderOfTheChanges) {
  Scene scene;
  JobView& first = scene.in_lane(5, 1, /*ready=*/true);
  JobView& second = scene.in_lane(4, 1, /*ready=*/true);
  JobView& third = scene.in_lane(3, 1, /*ready=*/true);
  scene.view.remove_ready(first);
  scene.view.remove_ready(second);
  scene.view.add_ready(first);
  const LaneView& lane = *scene.view.lane(LaneId(1));
  EXPECT_EQ(lane.ready, (std::vector<const JobView*>{&first, &third}));
  EXPECT_EQ(lane.jobs, (std::vector<const JobView*>{&first, &second, &third}));
}

TEST(View, ALaneExistsBetweenOpenAndClose) {
  View view(2);
  EXPECT_EQ(view.lane(LaneId(1)), nullptr);
  EXPECT_EQ(view.lane(LaneId(3)), nullptr);
  view.open_lane(LaneId(2), Bytes(128));
  ASSERT_NE(view.lane(LaneId(2)), nullptr);
  EXPECT_EQ(view.lane(LaneId(2))->region, Bytes(128));
  view.close_lane(LaneId(2));
  EXPECT_EQ(view.lane(LaneId(2)), nullptr);
}

TEST(View, RemainingTimeIsUnknownWithoutACountOrATime) {
  JobView job;
  job.options.total_iterations = 10;
  job.update_remaining();
  EXPECT_EQ(job.remaining(), std::nullopt);
  job.iteration_estimate = milliseconds(2);
  job.update_remaining();
  EXPECT_EQ(job.remaining(), milliseconds(20));
  job.options.total_iterations = 0;
  job.update_remaining();
  EXPECT_EQ(job.remaining(), std::nullopt);
}

// Measured of this job, else of equal ones, else as its client says.
TEST(View, AnIterationTakesWhatIsKnownBest) {
  JobView job;
  EXPECT_EQ(job.mean_iteration_time(), Duration());
  job.options.iteration_time = milliseconds(7);
  EXPECT_EQ(job.mean_iteration_time(), milliseconds(7));
  job.iteration_estimate = milliseconds(5);
  EXPECT_EQ(job.mean_iteration_time(), milliseconds(5));
  job.iterations = 2;
  job.busy = milliseconds(6);
  EXPECT_EQ(job.mean_iteration_time(), milliseconds(3));
}

TEST(View, RemainingTimeNeverOverflowsAndNeverGetsNegative) {
  JobView job;
  job.options.total_iterations = UINT64_MAX;
  job.iteration_estimate = seconds(1'000'000);
  job.update_remaining();
  ASSERT_TRUE(job.remaining().has_value());
  EXPECT_GT(job.remaining()->ns(), 0);
}

TEST(View, OfAJobThatDidMoreThanItSaidNothingIsKnown) {
  JobView job;
  job.options.total_iterations = 3;
  job.counted = 2;
  job.iteration_estimate = milliseconds(1);
  job.update_remaining();
  EXPECT_EQ(job.remaining(), milliseconds(1));
  for (const uint64_t done : {3, 5}) {
    job.counted = done;
    job.update_remaining();
    EXPECT_EQ(job.remaining(), std::nullopt) << done << " of 3: not short, not 0";
  }
}

TEST(View, TheMeanOfATurnOfManyIterationsIsTheirsAndOfNoMoreThanTwoWindows) {
  for (const uint64_t many : {1, 31, 32, 64, 65, 1000, 1'000'000}) {
    MovingMean mean;
    mean.add(3, milliseconds(3));
    mean.add(many, milliseconds(static_cast<int64_t>(2 * many)));
    EXPECT_LE(mean.count, 2 * MovingMean::kWindow) << many;
    if (many < MovingMean::kWindow) continue;
    EXPECT_EQ(mean.mean(), milliseconds(2)) << many;
  }
}

TEST(View, TheMeanFollowsAJobThatChangesAndForgetsWhatIsOld) {
  MovingMean mean;
  EXPECT_EQ(mean.mean(), Duration());
  mean.add(10, milliseconds(10));
  EXPECT_EQ(mean.mean(), milliseconds(1));
  // It becomes three times as slow: after ten windows a thousandth is left of before.
  for (int i = 0; i < 80; ++i) mean.add(4, milliseconds(12));
  EXPECT_GT(mean.mean(), microseconds(2990));
  EXPECT_LE(mean.mean(), milliseconds(3));
  EXPECT_LE(mean.count, 2 * MovingMean::kWindow);
  mean.add(UINT64_MAX / 2, milliseconds(1));  // what no worker says keeps to its bounds
  mean.add(1, milliseconds(1));
  EXPECT_GE(mean.mean(), Duration());
}

}  // namespace
}  // namespace laneway::policies
