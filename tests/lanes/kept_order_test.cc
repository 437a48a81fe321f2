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

// Who is visited for keys of at least `least`, which each visit raises to its key.
std::vector<size_t> visited(const CoarseKeys& keys, int32_t least) {
  std::vector<size_t> places;
  keys.visit_from(least, [&](size_t place) {
    places.push_back(place);
    least = keys.at(place);
  });
  return places;
}

TEST(CoarseKeys, EachThatIsGreatEnoughIsVisitedInItsOrder) {
  Random random(testing::seed_from_environment(733));
  CoarseKeys keys;
  std::vector<int32_t> expected;
  const auto any_place = [&](size_t count) { return random.below(count); };
  for (int round = 0; round < 20'000; ++round) {
    const size_t count = expected.size();
    // Grows and shrinks, over the lengths of blocks and of blocks of blocks.
    if (count == 0 || random.chance(round / 5'000 % 2 == 0 ? 0.2 : 0.05)) {
      const size_t place = any_place(count + 1);
      keys.insert(place);
      expected.insert(expected.begin() + static_cast<std::ptrdiff_t>(place), CoarseKeys::kNone);
    } else if (random.chance(round / 5'000 % 2 == 0 ? 0.05 : 0.2)) {
      const size_t place = any_place(count);
      keys.erase(place);
      expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(place));
    } else {
      const size_t place = any_place(count);
      const int32_t key =
          random.chance(0.2) ? CoarseKeys::kNone : static_cast<int32_t>(random.between(-40, 40));
      keys.set(place, key);
      expected[place] = key;
    }
    ASSERT_EQ(keys.size(), expected.size());
    const auto greatest_one = std::max_element(expected.begin(), expected.end());
    ASSERT_EQ(keys.greatest(), expected.empty() ? CoarseKeys::kNone : *greatest_one);
    const bool all = random.chance(0.3);
    const auto least = all ? CoarseKeys::kNone : static_cast<int32_t>(random.between(-40, 41));
    std::vector<size_t> places;
    int32_t greatest = std::max(least, CoarseKeys::kNone + 1);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(keys.at(i), expected[i]);
      if (expected[i] < greatest) continue;
      places.push_back(i);
      greatest = expected[i];
    }
    ASSERT_EQ(visited(keys, least), places) << "round " << round << ", least " << least;
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
