// What is in use over time: means of steps, whose number has a bound.
#include "simulator/timeline.h"

#include <gtest/gtest.h>

namespace laneway::simulator {
namespace {

TEST(Timeline, StepsHaveTheMeanOfWhatHeldInThem) {
  Timeline timeline;
  timeline.set(TimePoint() + microseconds(500), 2, mib(8));
  timeline.set(TimePoint() + microseconds(1'250), 1, mib(4));
  timeline.set(TimePoint() + microseconds(1'500), 0, Bytes());
  const auto steps = timeline.steps();
  ASSERT_EQ(steps.size(), 2);
  EXPECT_EQ(steps[0].to, TimePoint() + milliseconds(1));
  EXPECT_DOUBLE_EQ(steps[0].busy_lanes, 1);
  EXPECT_DOUBLE_EQ(steps[0].memory_bytes, static_cast<double>(mib(4).count()));
  EXPECT_EQ(steps[1].to, TimePoint() + microseconds(1'500)) << "the last one ends with the run";
  EXPECT_DOUBLE_EQ(steps[1].busy_lanes, 1.5);
  EXPECT_DOUBLE_EQ(steps[1].memory_bytes, static_cast<double>(mib(6).count()));
}

TEST(Timeline, HoweverLongItIsItHasNoMoreStepsAndTheSameInThem) {
  Timeline timeline;
  timeline.set(TimePoint(), 3, mib(1));
  timeline.set(TimePoint() + seconds(100), 0, Bytes());
  const int64_t year_s = 365 * 86'400;
  timeline.set(TimePoint() + seconds(year_s), 1, mib(2));
  timeline.set(TimePoint() + seconds(year_s + 50), 0, Bytes());
  const auto steps = timeline.steps();
  EXPECT_LE(steps.size(), Timeline::kMostSteps);
  EXPECT_GT(steps.size(), Timeline::kMostSteps / 4);
  double lane_s = 0;
  double byte_s = 0;
  for (const auto& step : steps) {
    lane_s += step.busy_lanes * (step.to - step.from).seconds();
    byte_s += step.memory_bytes * (step.to - step.from).seconds();
  }
  EXPECT_NEAR(lane_s, 350, 1e-3);
  EXPECT_NEAR(byte_s, static_cast<double>(mib(200).count()), 1);
  EXPECT_EQ(steps.back().to, TimePoint() + seconds(year_s + 50));
}

}  // namespace
}  // namespace laneway::simulator
