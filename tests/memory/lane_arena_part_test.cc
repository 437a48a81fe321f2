// Shows what becomes of a planned iteration of which a part is skipped because recorded work runs
// again: from any point of its tape to any later one, what follows gets the planned addresses and
// may free what the part left; it may leave the tape, or be given up. And of one that goes back to
// a place where it was: what runs again gets the planned addresses.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "memory/lane_arena.h"
#include "memory/planner.h"
#include "tests/memory/arena_script.h"
#include "tests/memory/random_tapes.h"
#include "tests/support/seed.h"

namespace laneway::memory {
namespace {

using testing::LaneMemory;
using testing::Script;
using testing::ScriptEvent;

class SkippedPart : public ::testing::Test {
 protected:
  SkippedPart() {
    arena_.bind(memory_.base(), plan_->plan.peak + Bytes(4096));
    arena_.begin_planned(plan_);
    positions_.push_back(arena_.position().value());
    for (const ScriptEvent& event : script_) {
      play(event);
      positions_.push_back(arena_.position().value());
    }
    EXPECT_FALSE(arena_.end().skipped);
  }

  std::byte* address(uint32_t key) {
    return memory_.base() + static_cast<ptrdiff_t>(plan_->steps[key].offset);
  }
  void play(const ScriptEvent& event) {
    if (event.is_free) {
      arena_.free(address(event.key));
    } else {
      EXPECT_EQ(arena_.allocate(event.bytes), address(event.key));
    }
  }
  void play(size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) play(script_[i]);
  }
  // An iteration that stands at event `to`, having skipped what lies behind event `from`.
  void skip(size_t from, size_t to) {
    arena_.begin_planned(plan_);
    play(0, from);
    arena_.skip_to(positions_[to]);
    EXPECT_EQ(arena_.position(), positions_[to]);
  }
  // What is alive at event `at`.
  std::vector<uint32_t> alive(size_t at) const {
    std::vector<bool> is(tape_.allocations.size(), false);
    for (size_t i = 0; i < at; ++i) is[script_[i].key] = !script_[i].is_free;
    std::vector<uint32_t> keys;
    for (uint32_t key = 0; key < is.size(); ++key) {
      if (is[key]) keys.push_back(key);
    }
    return keys;
  }
  // Those of them that are alive at the later event `from`, too.
  std::vector<uint32_t> still_alive(size_t at, size_t from) const {
    std::vector<uint32_t> keys = alive(at);
    const std::vector<uint32_t> later = alive(from);
    std::erase_if(keys, [&](uint32_t key) {
      return std::find(later.begin(), later.end(), key) == later.end();
    });
    return keys;
  }
  void expect_whole_iteration() {
    arena_.begin_planned(plan_);
    play(0, script_.size());
    const LaneArena::Use use = arena_.end();
    EXPECT_FALSE(use.went_off_tape);
    EXPECT_FALSE(use.skipped);
    EXPECT_EQ(use.live_count, 0U);
  }

  Random random_{testing::seed_from_environment(37)};
  const AllocationTape tape_ = testing::random_tape(random_, {.allocations = 30, .largest = 5'000});
  const std::shared_ptr<const PlannedTape> plan_ =
      make_planned_tape(tape_, plan_tape(tape_, {.pairs = 100'000}));
  const Script script_ = testing::script_of(tape_);
  LaneMemory memory_{plan_->plan.peak + Bytes(4096)};
  LaneArena arena_{64};
  std::vector<TapePosition> positions_;  // before each event, and at the end
};

TEST_F(SkippedPart, TheRestGoesOnWhereItEnds) {
  for (size_t from = 0; from <= script_.size(); ++from) {
    for (size_t to = from; to <= script_.size(); ++to) {
      skip(from, to);
      play(to, script_.size());
      const LaneArena::Use use = arena_.end();
      EXPECT_FALSE(use.went_off_tape);
      EXPECT_TRUE(use.skipped);
      EXPECT_FALSE(use.tape.has_value());
      EXPECT_EQ(use.live_count, 0U);
      EXPECT_EQ(use.allocations, tape_.allocations.size());
    }
  }
  expect_whole_iteration();
}

TEST_F(SkippedPart, TheRestMayLeaveTheTape) {
  for (size_t to = 0; to <= script_.size(); ++to) {
    skip(0, to);
    const std::vector<uint32_t> keys = alive(to);
    auto* const other = static_cast<std::byte*>(arena_.allocate(7));
    ASSERT_NE(other, nullptr);
    for (const uint32_t key : keys) {
      const auto bytes = static_cast<ptrdiff_t>(tape_.allocations[key].bytes);
      EXPECT_TRUE(other + 7 <= address(key) || address(key) + bytes <= other)
          << "nothing is given out over what the part left";
      arena_.free(address(key));
    }
    arena_.free(other);
    const LaneArena::Use use = arena_.end();
    EXPECT_TRUE(use.went_off_tape);
    EXPECT_EQ(use.live_count, 0U);
    ASSERT_TRUE(use.tape.has_value());
    EXPECT_EQ(use.tape->allocations.size(), positions_[to].allocations + 1) << "with the part";
    EXPECT_EQ(use.tape->frees.size(), use.tape->allocations.size());
  }
  expect_whole_iteration();
}

TEST_F(SkippedPart, IsGivenUpWithoutATrace) {
  for (size_t to = 0; to <= script_.size(); ++to) {
    skip(0, to);
    for (const uint32_t key : alive(to)) arena_.free(address(key));
    EXPECT_EQ(arena_.abandon().live_count, 0U);
  }
  expect_whole_iteration();
}

// From any event, on the tape or off it, with the allocation before refused or not.
TEST_F(SkippedPart, AnIterationThatGoesBackRunsOnItsTapeAgain) {
  for (size_t from = 0; from <= script_.size(); ++from) {
    for (size_t to = 0; to <= from; ++to) {
      for (const bool off_tape : {false, true}) {
        arena_.begin_planned(plan_);
        play(0, from);
        if (off_tape) arena_.free(arena_.allocate(7));
        const std::vector<uint32_t> there = alive(to);
        for (const uint32_t key : alive(from)) {
          if (std::find(there.begin(), there.end(), key) == there.end()) arena_.free(address(key));
        }
        if (there != still_alive(to, from)) {
          EXPECT_FALSE(arena_.go_back(positions_[to])) << "a block of the place is gone";
          for (const uint32_t key : still_alive(to, from)) arena_.free(address(key));
          EXPECT_TRUE(arena_.end().went_off_tape);
          continue;
        }
        ASSERT_TRUE(arena_.go_back(positions_[to]));
        EXPECT_EQ(arena_.position(), positions_[to]);
        play(to, script_.size());
        const LaneArena::Use use = arena_.end();
        EXPECT_FALSE(use.went_off_tape);
        EXPECT_TRUE(use.went_back);
        EXPECT_EQ(use.live_count, 0U);
      }
    }
  }
  expect_whole_iteration();
}

TEST_F(SkippedPart, WhatIsNotFreedKeepsAnIterationFromGoingBack) {
  arena_.begin_planned(plan_);
  void* const first = arena_.allocate(plan_->steps[0].bytes);
  EXPECT_FALSE(arena_.go_back(positions_[0]));
  EXPECT_EQ(arena_.followed(), nullptr);
  arena_.free(first);
  EXPECT_TRUE(arena_.end().went_off_tape);
  expect_whole_iteration();
}

TEST_F(SkippedPart, ARefusalDoesNotHoldForTheSecondRun) {
  arena_.refuse_at(0);
  arena_.begin_planned(plan_);
  EXPECT_EQ(arena_.allocate(plan_->steps[0].bytes), nullptr);
  ASSERT_TRUE(arena_.go_back(positions_[0]));
  play(0, script_.size());
  EXPECT_FALSE(arena_.end().went_off_tape);
}

TEST_F(SkippedPart, OffTheTapeThereIsNoPosition) {
  arena_.begin_probe();
  EXPECT_EQ(arena_.position(), std::nullopt);
  arena_.end();
  arena_.begin_planned(plan_);
  void* const other = arena_.allocate(plan_->steps[0].bytes + 1);
  EXPECT_EQ(arena_.position(), std::nullopt);
  arena_.free(other);
  arena_.end();
}

TEST_F(SkippedPart, FreesOfOtherThreadsAreInThePosition) {
  arena_.begin_planned(plan_);
  size_t event = 0;
  while (!script_[event].is_free) play(script_[event++]);
  arena_.free_remote(address(script_[event].key));
  EXPECT_EQ(arena_.position(), positions_[event + 1]);
  play(event + 1, script_.size());
  EXPECT_FALSE(arena_.end().went_off_tape);
}

using SkippedPartDeath = SkippedPart;

TEST_F(SkippedPartDeath, OnlyWhatLiesAheadOnAPlanIsSkipped) {
  arena_.begin_planned(plan_);
  play(0, 3);
  EXPECT_DEATH(arena_.skip_to(positions_[2]), "lies ahead");
  EXPECT_DEATH(arena_.skip_to({.allocations = 31, .frees = 0}), "lies ahead");
  arena_.abandon();
}

}  // namespace
}  // namespace laneway::memory
