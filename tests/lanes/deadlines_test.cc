// Shows that the earliest of all deadlines is known after each change, against a look at all.
#include "lanes/turns/deadlines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

TEST(Deadlines, TheEarliestIsKnown) {
  Random random(testing::seed_from_environment(613));
  Deadlines deadlines;
  std::vector<TimePoint> naive(limits::kMaxLanes, TimePoint::never());
  EXPECT_EQ(deadlines.earliest(), TimePoint::never());
  for (int i = 0; i < 20'000; ++i) {
    const size_t slot = random.below(naive.size());
    if (random.chance(0.4)) {
      deadlines.clear(slot);
      naive[slot] = TimePoint::never();
    } else {
      naive[slot] = TimePoint(random.between(0, 100));
      deadlines.set(slot, naive[slot]);
    }
    ASSERT_EQ(deadlines.at(slot), naive[slot]);
    ASSERT_EQ(deadlines.earliest(), *std::min_element(naive.begin(), naive.end()));
  }
}

}  // namespace
}  // namespace laneway::lanes
