// The view keeps its orders and its cached remaining times right, whatever numbers clients send.
#include "policies/view.h"

#include <gtest/gtest.h>

#include "tests/policies/scene.h"

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

TEST(View, RemainingTimeNeverOverflowsAndNeverGetsNegative) {
  JobView job;
  job.options.total_iterations = UINT64_MAX;
  job.iteration_estimate = seconds(1'000'000);
  job.update_remaining();
  ASSERT_TRUE(job.remaining().has_value());
  EXPECT_GT(job.remaining()->ns(), 0);
  job.options.total_iterations = 3;
  job.iterations = 5;  // a client that submits more than it said
  job.update_remaining();
  EXPECT_EQ(job.remaining(), Duration(0));
}

}  // namespace
}  // namespace laneway::policies
