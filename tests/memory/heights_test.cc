// Shows that heights and reaches are those that a step-by-step replay of the tape sees, on random
// tapes with marks anywhere.
#include "memory/heights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/memory/random_tapes.h"
#include "tests/support/seed.h"

namespace laneway::memory {
namespace {

// Every event of the tape, one after the other; before each of them and at the end a position.
struct Replay {
  Replay(const AllocationTape& tape, const Plan& plan) {
    std::multiset<uint64_t> ends;
    const auto end_of = [&](uint32_t i) {
      return plan.offsets[i] +
             static_cast<uint64_t>(padded_size(tape.allocations[i].bytes, plan.alignment).count());
    };
    const auto note = [&](uint32_t allocations, uint32_t frees) {
      positions.push_back({allocations, frees});
      heights.push_back(ends.empty() ? 0 : *ends.rbegin());
    };
    note(0, 0);
    uint32_t freed = 0;
    const auto free_to = [&](size_t count, uint32_t made) {
      for (; freed < count; note(made, freed)) ends.erase(ends.find(end_of(tape.frees[freed++])));
    };
    for (uint32_t i = 0; i < tape.allocations.size(); ++i) {
      free_to(tape.allocations[i].frees_before, i);
      ends.insert(end_of(i));
      note(i + 1, freed);
    }
    free_to(tape.frees.size(), static_cast<uint32_t>(tape.allocations.size()));
  }
  uint64_t highest(size_t from, size_t to) const {
    return *std::max_element(heights.begin() + static_cast<ptrdiff_t>(from),
                             heights.begin() + static_cast<ptrdiff_t>(to) + 1);
  }
  std::vector<TapePosition> positions;
  std::vector<uint64_t> heights;  // at each position
};

TEST(Heights, AreThoseOfAStepByStepReplay) {
  Random random(testing::seed_from_environment(11));
  for (int round = 0; round < 200; ++round) {
    const AllocationTape tape = testing::random_tape(
        random,
        {.allocations = static_cast<uint32_t>(random.below(60)), .free_all = random.chance(0.5)});
    const Plan plan = plan_tape(tape, {.pairs = 10'000});
    const Replay replay(tape, plan);
    std::vector<size_t> at;  // of the marks among the positions; some are equal
    for (uint64_t marks = random.below(12); at.size() < marks;) {
      at.push_back(random.below(replay.positions.size()));
    }
    std::sort(at.begin(), at.end());
    std::vector<TapePosition> marks;
    for (const size_t position : at) marks.push_back(replay.positions[position]);
    const Heights heights = heights_of(tape, plan, marks);
    ASSERT_EQ(heights.rise.size(), at.size());
    ASSERT_EQ(heights.reach.size(), at.size());
    const size_t end = replay.positions.size() - 1;
    for (size_t k = 0; k < at.size(); ++k) {
      const size_t next = k + 1 < at.size() ? at[k + 1] : end;
      EXPECT_EQ(heights.rise[k], replay.highest(at[k], next)) << "span " << k;
      EXPECT_EQ(heights.reach[k], replay.highest(at[k], end)) << "span " << k;
    }
  }
}

TEST(Heights, OfAKnownTape) {
  // 64 bytes at 0 all the time, 128 on top of it in the second node only, 64 in their place.
  const AllocationTape tape{{{64, 0}, {128, 0}, {64, 1}}, {1, 2, 0}};
  const Plan plan{{0, 64, 64}, Bytes(192), 64};
  const std::vector<TapePosition> marks = {{0, 0}, {1, 0}, {2, 1}, {3, 2}, {3, 3}};
  const Heights heights = heights_of(tape, plan, marks);
  EXPECT_EQ(heights.rise, std::vector<uint64_t>({64, 192, 128, 64, 0}));
  EXPECT_EQ(heights.reach, std::vector<uint64_t>({192, 192, 128, 64, 0}));
}

TEST(Heights, ABlockThatIsGoneBeforeTheFirstMarkIsInNoSpan) {
  const AllocationTape tape{{{64, 0}, {64, 1}}, {0, 1}};
  const Plan plan{{64, 0}, Bytes(128), 64};
  const std::vector<TapePosition> marks = {{1, 1}, {2, 1}};
  EXPECT_EQ(heights_of(tape, plan, marks).rise, std::vector<uint64_t>({64, 64}));
}

}  // namespace
}  // namespace laneway::memory
