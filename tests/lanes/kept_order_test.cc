// Shows that what is kept in an order, or rounded, answers as what is sorted or compared anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "lanes/coarse_key.h"
#include "lanes/region_order.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

TEST(CoarseKey, IsNeverLessForAGreaterNumber) {
  Random random(testing::seed_from_environment(733));
  std::vector<int64_t> numbers{INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
  for (int i = 0; i < 2000; ++i) {
    const int64_t number = random.between(0, INT64_MAX) >> random.between(0, 62);
    numbers.insert(numbers.end(), {number, -number, number + (number < INT64_MAX)});
  }
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 1; i < numbers.size(); ++i) {
    ASSERT_LE(coarse_key(numbers[i - 1]), coarse_key(numbers[i])) << numbers[i];
  }
  EXPECT_LT(coarse_key(1'000'000), coarse_key(1'000'001)) << "about seven digits";
}

TEST(CoarseKey, EachThatIsGreatEnoughIsVisitedInItsOrder) {
  Random random(testing::seed_from_environment(733));
  for (size_t count = 0; count < 70; ++count) {
    std::vector<int32_t> keys;
    for (size_t i = 0; i < count; ++i) {
      keys.push_back(static_cast<int32_t>(random.between(INT32_MIN, INT32_MAX)));
    }
    int32_t least = static_cast<int32_t>(random.between(INT32_MIN, INT32_MAX / 2));
    std::vector<size_t> expected, visited;
    int32_t greatest = least;
    for (size_t i = 0; i < count; ++i) {
      if (keys[i] < greatest) continue;
      expected.push_back(i);
      greatest = keys[i];
    }
    visit_from(keys, least, [&](size_t place) {
      visited.push_back(place);
      least = keys[place];  // raised as it goes
    });
    ASSERT_EQ(visited, expected) << count << " keys";
  }
}

TEST(RegionOrder, IsThatOfTheRegionsHoweverTheyMoved) {
  Random random(testing::seed_from_environment(733));
  std::vector<Lane> lanes(9);
  RegionOrder order;
  for (int round = 0; round < 500; ++round) {
    for (Lane& lane : lanes) {
      if (!random.chance(0.3)) continue;
      lane.region = Region{};
      if (random.chance(0.2)) continue;  // closed
      lane.region.offset = Bytes(random.between(0, 1'000'000));
      lane.region.size = Bytes(random.between(1, 1000));
    }
    std::vector<memory::FreeList::Range> expected;
    for (const Lane& lane : lanes) {
      if (lane.region.size > Bytes()) expected.push_back(lane.region.range());
    }
    std::sort(expected.begin(), expected.end());
    const auto ranges = order.ranges(lanes);
    ASSERT_TRUE(std::equal(ranges.begin(), ranges.end(), expected.begin(), expected.end()))
        << "round " << round;
  }
}

}  // namespace
}  // namespace laneway::lanes
