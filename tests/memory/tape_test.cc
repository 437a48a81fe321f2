// Shows the live bound against a sum over every moment, and that the hash tells tapes apart.
#include "memory/tape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/memory/random_tapes.h"
#include "tests/support/seed.h"

namespace laneway::memory {
namespace {

// For the moment of each allocation: everything made by then and not freed by then.
int64_t bound_by_moments(const AllocationTape& tape, int64_t alignment) {
  int64_t highest = 0;
  for (size_t moment = 0; moment < tape.allocations.size(); ++moment) {
    std::set<uint32_t> freed(tape.frees.begin(),
                             tape.frees.begin() + tape.allocations[moment].frees_before);
    int64_t live = 0;
    for (uint32_t i = 0; i <= moment; ++i) {
      const auto bytes = static_cast<int64_t>(std::max<uint64_t>(tape.allocations[i].bytes, 1));
      if (!freed.contains(i)) live += (bytes + alignment - 1) / alignment * alignment;
    }
    highest = std::max(highest, live);
  }
  return highest;
}

TEST(AllocationTape, LiveBoundIsTheFullestMoment) {
  Random random(testing::seed_from_environment(3));
  for (int round = 0; round < 50; ++round) {
    const AllocationTape tape = testing::random_tape(random, {.allocations = 60});
    for (const int64_t alignment : {64, 512}) {
      EXPECT_EQ(tape.live_bound(alignment).count(), bound_by_moments(tape, alignment));
    }
  }
}

TEST(AllocationTape, HashSeesEverySizeCountAndOrder) {
  Random random(testing::seed_from_environment(4));
  const AllocationTape tape = testing::random_tape(random, {.allocations = 40});
  std::set<uint64_t> hashes = {tape.hash()};
  size_t variants = 1;
  const auto add = [&](const AllocationTape& variant) {
    hashes.insert(variant.hash());
    ++variants;
  };
  for (size_t i = 0; i < tape.allocations.size(); ++i) {
    AllocationTape variant = tape;
    ++variant.allocations[i].bytes;
    add(variant);
    variant = tape;
    ++variant.allocations[i].frees_before;
    add(variant);
  }
  for (size_t i = 0; i + 1 < tape.frees.size(); ++i) {
    AllocationTape variant = tape;
    std::swap(variant.frees[i], variant.frees[i + 1]);
    add(variant);
  }
  add(AllocationTape{});
  EXPECT_EQ(hashes.size(), variants);
  EXPECT_EQ(AllocationTape(tape).hash(), tape.hash());
}

TEST(AllocationTape, HashIsTheSameOnEveryMachine) {
  // FNV-1a over little-endian 64-bit words 1, 100, 0, 1, 0; from an independent implementation.
  const AllocationTape tape{{{100, 0}}, {0}};
  uint64_t expected = 14695981039346656037ULL;
  for (const uint64_t word : {1ULL, 100ULL, 0ULL, 1ULL, 0ULL}) {
    for (int i = 0; i < 8; ++i) {
      expected = (expected ^ (word >> (8 * i) & 255)) * 1099511628211ULL;
    }
  }
  EXPECT_EQ(tape.hash(), expected);
}

TEST(AllocationTape, IllFormedTapesAreSeen) {
  EXPECT_TRUE((AllocationTape{}).well_formed());
  EXPECT_TRUE((AllocationTape{{{1, 0}, {1, 1}}, {0, 1}}).well_formed());
  EXPECT_FALSE((AllocationTape{{{1, 0}, {1, 1}}, {1, 0}}).well_formed()) << "freed before made";
  EXPECT_FALSE((AllocationTape{{{1, 0}, {1, 1}}, {0, 0}}).well_formed()) << "freed twice";
  EXPECT_FALSE((AllocationTape{{{1, 0}}, {7}}).well_formed()) << "freed what is not there";
  EXPECT_FALSE((AllocationTape{{{1, 0}, {1, 2}}, {0}}).well_formed()) << "more frees than taped";
  EXPECT_FALSE((AllocationTape{{{1, 0}, {1, 1}, {1, 0}}, {0}}).well_formed()) << "goes back";
}

}  // namespace
}  // namespace laneway::memory
