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

// Against a sort of all who wait, while jobs come and go, and ranks change now and then.
TEST(View, KnowsWhoIsFirstByRankAndWhoIsBeforeWhom) {
  Random random(testing::seed_from_environment(90));
  View view(1);
  std::deque<JobView> jobs;
  std::vector<const JobView*> naive;
  const auto rank = [](const JobView& job) { return job.busy.ns(); };
  const auto any_rank = [&] { return Duration(random.between(0, 20)); };
  for (uint64_t step = 1; step <= 3'000; ++step) {
    if (naive.empty() || random.chance(0.52)) {
      JobView& job = jobs.emplace_back();
      job.busy = any_rank();
      // Most at the end of the queue.
      job.queue = random.chance(0.8) ? 10'000 + step : step;
      view.add_waiting(job);
      naive.push_back(&job);
    } else {
      const size_t gone = random.below(naive.size());
      view.remove_waiting(*naive[gone]);
      naive.erase(naive.begin() + static_cast<std::ptrdiff_t>(gone));
    }
    if (random.chance(0.02)) {
      for (JobView& job : jobs) job.busy = any_rank();
      view.forget_ranks();
    }
    if (random.chance(0.3)) continue;
    view.rank_waiting(rank);
    ASSERT_TRUE(view.ranks_are(rank));
    std::sort(naive.begin(), naive.end(), [](const JobView* a, const JobView* b) {
      return std::pair(a->busy, a->queue) < std::pair(b->busy, b->queue);
    });
    ASSERT_EQ(view.first_waiting(), naive.empty() ? nullptr : naive.front()) << "step " << step;
    for (uint32_t i = 0; i < naive.size(); ++i) ASSERT_EQ(view.waiting_before(*naive[i]), i);
  }
}

TEST(View, RanksAreKnownUntilAJobComesOrThePoolHasAnotherCapacity) {
  Scene scene;
  const auto rank = [](const JobView& job) { return job.busy.ns(); };
  EXPECT_EQ(scene.view.first_waiting(), nullptr);
  JobView& one = scene.waiting(1);
  scene.view.rank_waiting(rank);
  EXPECT_EQ(scene.view.first_waiting(), &one);
  one.busy = Duration(5);
  EXPECT_FALSE(scene.view.ranks_are(rank));
  scene.view.set_pool({.capacity = Bytes(64), .claimed = {}, .largest_free = {}});
  EXPECT_EQ(scene.view.first_waiting(), nullptr);
  EXPECT_TRUE(scene.view.ranks_are(rank)) << "none is known";
  scene.view.rank_waiting(rank);
  scene.waiting(2);
  EXPECT_EQ(scene.view.first_waiting(), nullptr);
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
