// Shows that the order of regions that is kept is that of regions sorted anew.
#include "lanes/state/region_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

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
