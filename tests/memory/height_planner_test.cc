// Shows that height plans are valid, lie within the limit above the bound, are lower over time than
// the plans with the lowest peak, follow the weights, and are the same each time.
#include "memory/height_planner.h"

#include <gtest/gtest.h>

#include <vector>

#include "memory/heights.h"
#include "tests/memory/random_tapes.h"
#include "tests/support/plan_check.h"
#include "tests/support/seed.h"

namespace laneway::memory {
namespace {

// A mark in front of every allocation that is a multiple of `every`, and one at the end.
std::vector<TapePosition> marks_of(const AllocationTape& tape, uint32_t every) {
  std::vector<TapePosition> marks;
  for (uint32_t i = 0; i < tape.allocations.size(); i += every) {
    marks.push_back({i, tape.allocations[i].frees_before});
  }
  marks.push_back(
      {static_cast<uint32_t>(tape.allocations.size()), static_cast<uint32_t>(tape.frees.size())});
  return marks;
}

double weighted_height(const AllocationTape& tape, const Plan& plan,
                       const std::vector<TapePosition>& marks, const std::vector<double>& weights) {
  const Heights heights = heights_of(tape, plan, marks);
  double sum = 0;
  for (size_t k = 0; k < marks.size(); ++k) {
    sum += weights[k] * static_cast<double>(heights.rise[k]);
  }
  return sum;
}

// None is allowed to be higher than the lowest plan packed bottom up, which is where it starts.
TEST(HeightPlanner, RandomTapesGetValidPlansNoHigherThanTheLowestPeaks) {
  Random random(testing::seed_from_environment(12));
  for (int round = 0; round < 60; ++round) {
    const AllocationTape tape =
        testing::random_tape(random, {.allocations = static_cast<uint32_t>(random.below(120)),
                                      .free_chance = 0.3 + 0.3 * random.unit(),
                                      .free_all = random.chance(0.7)});
    const auto marks = marks_of(tape, static_cast<uint32_t>(random.between(1, 4)));
    std::vector<double> weights(marks.size());
    for (double& weight : weights) weight = random.chance(0.2) ? 0 : random.unit();
    const int64_t alignment = random.chance(0.5) ? 64 : 512;
    const Plan lowest = plan_tape(tape, {.alignment = alignment});
    const Plan plan = plan_heights(tape, marks, weights, {.alignment = alignment, .packings = 300});
    const Status checked = check_plan(tape, plan);
    ASSERT_TRUE(checked.ok()) << checked.error().message;
    const auto bound = static_cast<double>(tape.live_bound(alignment).count());
    EXPECT_LE(static_cast<double>(plan.peak.count()),
              std::max(1.08 * bound, static_cast<double>(lowest.peak.count())));
    EXPECT_LE(weighted_height(tape, plan, marks, weights),
              weighted_height(tape, lowest, marks, weights) * (1 + 1e-12));
  }
}

// The gap between height and live bytes is what is searched for: on steps like those of trainings
// it is at most half of the lowest plan's.
TEST(HeightPlanner, TrainingStepsStayNearTheirLiveBytes) {
  Random random(testing::seed_from_environment(13));
  double low = 0;
  double lowest = 0;
  double live = 0;
  for (int round = 0; round < 10; ++round) {
    const AllocationTape tape =
        testing::training_tape(random, static_cast<uint32_t>(random.between(10, 60)));
    const auto marks = marks_of(tape, 1);
    const std::vector<double> weights(marks.size(), 1.0);
    const auto bound = static_cast<double>(tape.live_bound(64).count());
    low += weighted_height(tape, plan_heights(tape, marks, weights, {.packings = 2'000}), marks,
                           weights) /
           bound / static_cast<double>(marks.size());
    lowest += weighted_height(tape, plan_tape(tape, {}), marks, weights) / bound /
              static_cast<double>(marks.size());
    // What is alive at the marks: no plan is lower.
    for (size_t k = 0; k + 1 < marks.size(); ++k) {
      AllocationTape part = tape;
      part.allocations.resize(k + 1);
      std::vector<bool> gone(tape.allocations.size(), false);
      Bytes alive;
      for (uint32_t i = 0; i < tape.allocations[k].frees_before; ++i) gone[tape.frees[i]] = true;
      for (uint32_t i = 0; i <= k; ++i) {
        if (!gone[i]) alive += padded_size(tape.allocations[i].bytes, 64);
      }
      live += static_cast<double>(alive.count()) / bound / static_cast<double>(marks.size());
    }
  }
  EXPECT_LE(live, low);
  EXPECT_LE(low - live, (lowest - live) / 2);
}

// Two blocks that are alive together for a while: either the first one's time or the second one's
// can be low, and the weights say which.
TEST(HeightPlanner, TheWeightsSayWhenItIsLow) {
  const AllocationTape tape{{{64, 0}, {64, 0}}, {0, 1}};
  const std::vector<TapePosition> marks = {{0, 0}, {1, 0}, {2, 1}, {2, 2}};
  const auto rises = [&](const std::vector<double>& weights) {
    return heights_of(tape, plan_heights(tape, marks, weights, {}), marks).rise;
  };
  EXPECT_EQ(rises({2, 0, 1, 0}), std::vector<uint64_t>({64, 128, 128, 0}));
  EXPECT_EQ(rises({1, 0, 2, 0}), std::vector<uint64_t>({128, 128, 64, 0}));
}

TEST(HeightPlanner, TheSameTapeGetsTheSamePlan) {
  Random random(testing::seed_from_environment(14));
  const AllocationTape tape = testing::random_tape(random, {.allocations = 100});
  const auto marks = marks_of(tape, 2);
  const std::vector<double> weights(marks.size(), 1.0);
  const HeightOptions options{.packings = 500};
  const Plan plan = plan_heights(tape, marks, weights, options);
  EXPECT_EQ(plan_heights(tape, marks, weights, options).offsets, plan.offsets);
}

TEST(HeightPlanner, WorkIsBoundedByCounting) {
  Random random(testing::seed_from_environment(15));
  const AllocationTape tape = testing::training_tape(random, 200);
  const auto marks = marks_of(tape, 1);
  const std::vector<double> weights(marks.size(), 1.0);
  // Not even one order is left to compare: it is the lowest plan, packed bottom up.
  const Plan plan = plan_heights(tape, marks, weights, {.pairs = 0, .packings = 0});
  EXPECT_TRUE(check_plan(tape, plan).ok());
  EXPECT_LE(plan.peak, plan_tape(tape, {}).peak);
}

TEST(HeightPlanner, EmptyTapesAndTapesWithoutNodesArePlanned) {
  EXPECT_EQ(plan_heights({}, {}, {}, {}).peak, Bytes(0));
  const AllocationTape tape{{{0, 0}, {4, 0}}, {0, 1}};
  EXPECT_TRUE(check_plan(tape, plan_heights(tape, {}, {}, {.packings = 50})).ok());
}

}  // namespace
}  // namespace laneway::memory
