// Shows that is_plan_of tells plans from what only looks like one, held against the tests' own
// check of a plan, over random tapes and random damage.
#include "memory/planned_tape.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/random.h"
#include "tests/memory/random_tapes.h"
#include "tests/support/plan_check.h"
#include "tests/support/seed.h"

namespace laneway::memory {
namespace {

TEST(PlannedTape, AgreesWithTheTestsOwnCheckOnDamagedPlans) {
  Random random(testing::seed_from_environment(7));
  int sound = 0;
  int unsound = 0;
  for (int round = 0; round < 300; ++round) {
    const AllocationTape tape = testing::random_tape(random, {.allocations = 40, .largest = 4096});
    Plan plan = plan_tape(tape, {.alignment = 64});
    ASSERT_TRUE(is_plan_of(tape, plan));
    // Moved by whole units, so that only overlaps and the peak can be wrong with it.
    uint64_t& moved = plan.offsets[random.below(plan.offsets.size())];
    moved = 64 * random.below(static_cast<uint64_t>(plan.peak.count()) / 64 + 1);
    const bool right = check_plan(tape, plan).ok();
    ASSERT_EQ(is_plan_of(tape, plan), right) << "round " << round;
    ++(right ? sound : unsound);
  }
  EXPECT_GT(sound, 10);
  EXPECT_GT(unsound, 10);
}

TEST(PlannedTape, APlanWithNonsenseInItIsNone) {
  const AllocationTape tape{.allocations = {{100, 0}, {200, 1}}, .frees = {0, 1}};
  const Plan plan{.offsets = {0, 0}, .peak = Bytes(256), .alignment = 64};
  ASSERT_TRUE(is_plan_of(tape, plan));
  const auto refused = [&](auto damage) {
    AllocationTape other = tape;
    Plan damaged = plan;
    damage(other, damaged);
    return !is_plan_of(other, damaged);
  };
  EXPECT_TRUE(refused([](auto&, Plan& p) { p.offsets.pop_back(); }));
  EXPECT_TRUE(refused([](auto&, Plan& p) { p.offsets[1] = 8; })) << "not aligned";
  EXPECT_TRUE(refused([](auto&, Plan& p) { p.offsets[0] = UINT64_MAX - 63; }));
  EXPECT_TRUE(refused([](auto&, Plan& p) { p.peak = Bytes(255); }));
  EXPECT_TRUE(refused([](auto&, Plan& p) { p.peak = Bytes(-1); }));
  EXPECT_TRUE(refused([](auto&, Plan& p) { p.alignment = 0; }));
  EXPECT_TRUE(refused([](auto&, Plan& p) { p.alignment = 48; }));
  EXPECT_TRUE(refused([](auto& t, Plan&) { t.allocations[0].bytes = UINT64_MAX; }));
  EXPECT_TRUE(refused([](auto& t, Plan&) { t.frees[0] = 1; })) << "freed before it is there";
  EXPECT_TRUE(refused([](auto& t, Plan&) { t.allocations[1].frees_before = 0; }))
      << "both are alive, at one place";
}

}  // namespace
}  // namespace laneway::memory
