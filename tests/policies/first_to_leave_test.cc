// FirstToLeave names the one that a comparison of all with each other names, whatever comes when.
#include "policies/first_to_leave.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "policies/registry.h"
#include "tests/policies/scene.h"
#include "tests/support/seed.h"

namespace laneway::policies {
namespace {

constexpr TimePoint kNow(100);

Leaver any_leaver(Random& random) {
  return {.rank = random.between(0, 3),
          .placed_at = TimePoint(random.between(0, 3)),
          .used_at = TimePoint(random.between(80, 90)),
          .idle = random.chance(0.1),
          .clean = random.chance(0.5)};
}

// The rule, read aloud.
bool leaves_before(const Leaver& a, const Leaver& b) {
  if (a.idle != b.idle) return a.idle;
  const auto unused = [](const Leaver& one) {
    return (kNow - one.used_at).ns() * (one.clean ? 2 : 1);
  };
  if (a.idle) return unused(a) > unused(b);
  return a.rank != b.rank ? a.rank > b.rank : a.placed_at < b.placed_at;
}

TEST(FirstToLeave, IsTheOneThatAComparisonOfAllNames) {
  Random random(testing::seed_from_environment(411));
  int nobody = 0;
  for (int round = 0; round < 5'000; ++round) {
    const int64_t wants = random.between(0, 4);
    std::vector<Leaver> all(random.below(8));
    for (Leaver& one : all) one = any_leaver(random);
    const Leaver* naive = nullptr;
    for (const Leaver& one : all) {
      if (!one.idle && one.rank < wants) continue;
      if (naive == nullptr || leaves_before(one, *naive)) naive = &one;
    }
    FirstToLeave leaves(kNow, wants);
    const Leaver* first = nullptr;
    for (const Leaver& one : all) {
      const bool in_vain = !one.idle && one.rank < leaves.least_rank();
      const bool is_first = leaves.is_first(one);
      ASSERT_FALSE(in_vain && is_first) << "round " << round;
      if (is_first) first = &one;
    }
    ASSERT_EQ(first, naive) << "round " << round;
    nobody += first == nullptr;
  }
  EXPECT_GT(nobody, 100);
}

}  // namespace
}  // namespace laneway::policies
