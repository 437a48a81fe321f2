// Shows what becomes of a planned iteration whose rest is skipped because recorded work runs again:
// at any point of its tape it ends as if the tape had been followed, or is given up without a
// trace; the next iteration gets the planned addresses.
#include <gtest/gtest.h>

#include "memory/lane_arena.h"
#include "memory/planner.h"
#include "tests/memory/arena_script.h"
#include "tests/memory/random_tapes.h"
#include "tests/support/seed.h"

namespace laneway::memory {
namespace {

using testing::LaneMemory;
using testing::Script;
using testing::ScriptPlayer;

class SkippedRest : public ::testing::Test {
 protected:
  SkippedRest() { arena_.bind(memory_.base(), plan_->plan.peak); }

  // Follows the tape for `events` allocations and frees.
  void follow(size_t events) {
    arena_.begin_planned(plan_);
    ScriptPlayer player(arena_, memory_.base());
    const Script start(script_.begin(), script_.begin() + static_cast<ptrdiff_t>(events));
    ASSERT_EQ(player.play(start), events);
  }
  void expect_whole_iteration() {
    follow(script_.size());
    const LaneArena::Use use = arena_.end();
    EXPECT_FALSE(use.went_off_tape);
    EXPECT_FALSE(use.skipped);
    EXPECT_EQ(use.live_count, 0U);
  }

  Random random_{testing::seed_from_environment(31)};
  const AllocationTape tape_ = testing::random_tape(random_, {.allocations = 40, .largest = 5'000});
  const std::shared_ptr<const PlannedTape> plan_ =
      make_planned_tape(tape_, plan_tape(tape_, {.pairs = 100'000}));
  const Script script_ = testing::script_of(tape_);
  LaneMemory memory_{plan_->plan.peak};
  LaneArena arena_{64};
};

TEST_F(SkippedRest, EndsAsIfTheTapeHadBeenFollowed) {
  for (size_t events = 0; events <= script_.size(); ++events) {
    follow(events);
    EXPECT_EQ(arena_.followed(), plan_);
    arena_.skip_rest();
    EXPECT_TRUE(arena_.headroom().plan_covers_rest);
    const LaneArena::Use use = arena_.end();
    EXPECT_FALSE(use.went_off_tape);
    EXPECT_TRUE(use.skipped);
    EXPECT_FALSE(use.tape.has_value());
    EXPECT_EQ(use.live_count, 0U);
    EXPECT_EQ(use.allocations, tape_.allocations.size());
    EXPECT_EQ(use.peak, plan_->plan.peak);
    EXPECT_EQ(arena_.followed(), nullptr);
  }
  expect_whole_iteration();
}

TEST_F(SkippedRest, IsGivenUpWithoutATrace) {
  for (size_t events = 0; events <= script_.size(); ++events) {
    follow(events);
    arena_.skip_rest();
    EXPECT_EQ(arena_.abandon().live_count, 0U);
  }
  expect_whole_iteration();
}

TEST_F(SkippedRest, TakesBackWhatWasAllocatedBefore) {
  arena_.begin_planned(plan_);
  void* const first = arena_.allocate(tape_.allocations[0].bytes);
  ASSERT_NE(first, nullptr);
  arena_.skip_rest();
  arena_.free(first);
  EXPECT_EQ(arena_.end().live_count, 0U);
  expect_whole_iteration();
}

using SkippedRestDeath = SkippedRest;

TEST_F(SkippedRestDeath, NothingIsAllocatedBehindIt) {
  arena_.begin_planned(plan_);
  arena_.skip_rest();
  EXPECT_DEATH(arena_.allocate(64), "behind what was skipped");
}

TEST_F(SkippedRestDeath, OnlyAPlanIsSkipped) {
  arena_.begin_probe();
  EXPECT_DEATH(arena_.skip_rest(), "off its plan");
}

}  // namespace
}  // namespace laneway::memory
