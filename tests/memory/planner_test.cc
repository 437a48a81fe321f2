// Shows that plans are valid on random and on training-shaped tapes (checked pair by pair here and
// by check_plan, which is itself tested on broken plans), how close to the bound they come, that
// they are the same each time, and that the work for large tapes stays bounded, by counting.
#include "memory/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/memory/random_tapes.h"
#include "tests/support/plan_check.h"
#include "tests/support/seed.h"

namespace laneway::memory {
namespace {

// Every pair of allocations, by lifetimes computed here.
bool overlaps_somewhere(const AllocationTape& tape, const Plan& plan) {
  const size_t count = tape.allocations.size();
  std::vector<size_t> freed_at(count, SIZE_MAX);  // position among the frees
  for (size_t k = 0; k < tape.frees.size(); ++k) freed_at[tape.frees[k]] = k;
  for (size_t b = 0; b < count; ++b) {
    for (size_t a = 0; a < b; ++a) {
      const bool both_alive = freed_at[a] >= tape.allocations[b].frees_before;
      const bool apart = plan.offsets[a] + tape.allocations[a].bytes <= plan.offsets[b] ||
                         plan.offsets[b] + tape.allocations[b].bytes <= plan.offsets[a];
      if (both_alive && !apart) return true;
    }
  }
  return false;
}

void expect_valid(const AllocationTape& tape, const Plan& plan) {
  const Status checked = check_plan(tape, plan);
  EXPECT_TRUE(checked.ok()) << checked.error().message;
  EXPECT_FALSE(overlaps_somewhere(tape, plan));
  EXPECT_GE(plan.peak, tape.live_bound(plan.alignment));
}

TEST(Planner, RandomTapesGetValidPlans) {
  Random random(testing::seed_from_environment(5));
  for (int round = 0; round < 60; ++round) {
    const AllocationTape tape =
        testing::random_tape(random, {.allocations = static_cast<uint32_t>(random.below(150)),
                                      .free_chance = 0.3 + 0.3 * random.unit(),
                                      .free_all = random.chance(0.7)});
    PlannerOptions options;
    options.alignment = random.chance(0.5) ? 64 : 512;
    options.pairs = 2'000'000;
    expect_valid(tape, plan_tape(tape, options));
  }
}

TEST(Planner, TrainingStepsComeWithinThreePercentOfTheBound) {
  Random random(testing::seed_from_environment(6));
  for (int round = 0; round < 20; ++round) {
    const AllocationTape tape =
        testing::training_tape(random, static_cast<uint32_t>(random.between(1, 120)));
    const Plan plan = plan_tape(tape, {});
    expect_valid(tape, plan);
    EXPECT_LE(static_cast<double>(plan.peak.count()),
              1.03 * static_cast<double>(tape.live_bound(64).count()));
  }
}

TEST(Planner, StacksReachTheBoundExactly) {
  AllocationTape tape;  // nested lifetimes: a plain stack is optimal
  for (uint32_t i = 0; i < 100; ++i) tape.allocations.push_back({64 + 64 * (i * 37 % 11), 0});
  for (uint32_t i = 100; i-- > 0;) tape.frees.push_back(i);
  EXPECT_EQ(plan_tape(tape, {}).peak, tape.live_bound(64));
}

TEST(Planner, TheSameTapeGetsTheSamePlan) {
  Random random(testing::seed_from_environment(7));
  const AllocationTape tape = testing::random_tape(random, {.allocations = 200});
  EXPECT_EQ(plan_tape(tape, {}).offsets, plan_tape(tape, {}).offsets);
}

TEST(Planner, EmptyTapesAndEmptyAllocationsArePlanned) {
  EXPECT_EQ(plan_tape({}, {}).peak, Bytes(0));
  const AllocationTape tape{{{0, 0}, {0, 0}, {4, 0}}, {0, 1, 2}};
  const Plan plan = plan_tape(tape, {});
  EXPECT_EQ(plan.peak, Bytes(3 * 64));
  EXPECT_TRUE(check_plan(tape, plan).ok());
}

TEST(Planner, TenThousandAllocationsArePlannedWithinTheCountedWork) {
  Random random(testing::seed_from_environment(8));
  const AllocationTape tape = testing::training_tape(random, 1400);
  ASSERT_GE(tape.allocations.size(), 9'000u);
  PlannerOptions options;
  options.pairs = 50'000'000;
  const Plan plan = plan_tape(tape, options);
  EXPECT_TRUE(check_plan(tape, plan).ok());
  EXPECT_LE(static_cast<double>(plan.peak.count()),
            1.03 * static_cast<double>(tape.live_bound(64).count()));
}

TEST(CheckPlan, FindsEveryKindOfFault) {
  const AllocationTape tape{{{100, 0}, {100, 0}, {100, 1}}, {0, 1, 2}};
  const Plan good{{0, 128, 0}, Bytes(256), 64};
  ASSERT_TRUE(check_plan(tape, good).ok());
  const auto refused = [&](Plan plan) { return !check_plan(tape, plan).ok(); };
  EXPECT_TRUE(refused({{0, 64, 0}, Bytes(256), 64})) << "the second lies in the first";
  EXPECT_TRUE(refused({{0, 128, 64}, Bytes(256), 64})) << "the third reaches into the second";
  EXPECT_TRUE(refused({{128, 0, 0}, Bytes(256), 64})) << "two at one place";
  EXPECT_TRUE(refused({{0, 128, 0}, Bytes(200), 64})) << "above the peak";
  EXPECT_TRUE(refused({{0, 130, 0}, Bytes(256), 64})) << "not aligned";
  EXPECT_TRUE(refused({{0, 128}, Bytes(256), 64})) << "one missing";
}

TEST(SimulateBestFit, LiesBetweenTheBoundAndTheSumOfSizes) {
  Random random(testing::seed_from_environment(9));
  for (int round = 0; round < 30; ++round) {
    const AllocationTape tape = testing::random_tape(random, {.allocations = 100});
    Bytes sum;
    for (const TapeAllocation& allocation : tape.allocations) {
      sum += padded_size(allocation.bytes, 64);
    }
    EXPECT_GE(simulate_best_fit(tape, 64), tape.live_bound(64));
    EXPECT_LE(simulate_best_fit(tape, 64), sum);
  }
}

}  // namespace
}  // namespace laneway::memory
