// Shows that an image's slots lie in order of first use, aligned and apart from each other, that
// slots which nobody names follow in their own order, and that appended ones do not move the
// others.
#include "pipeline/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "tests/support/seed.h"

namespace laneway::pipeline {
namespace {

lanes::ImageSlot slot(uint64_t bytes) { return {"s", lanes::SlotKind::parameter, bytes}; }

TEST(ImageLayout, FollowsTheOrderOfFirstUse) {
  const std::vector<lanes::ImageSlot> slots = {slot(100), slot(64), slot(1), slot(0)};
  const ImageLayout layout(slots, std::vector<uint32_t>{2, 0}, 64);
  EXPECT_EQ(layout.offset(2), Bytes(0));
  EXPECT_EQ(layout.offset(0), Bytes(64));
  EXPECT_EQ(layout.offset(1), Bytes(192));  // not named: behind those that are
  EXPECT_EQ(layout.offset(3), Bytes(256));
  EXPECT_EQ(layout.total(), Bytes(256));
  EXPECT_EQ(layout.slot_count(), 4U);
  EXPECT_EQ(layout.slot(0).bytes, 100U);
}

TEST(ImageLayout, IsEmptyWithoutSlots) {
  const ImageLayout layout({}, {}, 64);
  EXPECT_EQ(layout.total(), Bytes(0));
  EXPECT_EQ(layout.slot_count(), 0U);
}

TEST(ImageLayout, NeverOverlaps) {
  Random random(testing::seed_from_environment(7));
  for (int round = 0; round < 200; ++round) {
    std::vector<lanes::ImageSlot> slots(1 + random.below(30));
    for (auto& each : slots) each = slot(random.below(1000));
    std::vector<uint32_t> order(slots.size());
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    order.resize(random.below(order.size() + 1));
    const ImageLayout layout(slots, order, 64);
    int64_t end = 0;
    std::vector<std::pair<int64_t, int64_t>> places;
    for (uint32_t i = 0; i < slots.size(); ++i) {
      const int64_t begin = layout.offset(i).count();
      EXPECT_EQ(begin % 64, 0);
      places.emplace_back(begin, begin + static_cast<int64_t>(slots[i].bytes));
      end = std::max(end, places.back().second);
    }
    EXPECT_LE(Bytes(end), layout.total());
    EXPECT_LT(layout.total().count() - end, 64);
    std::sort(places.begin(), places.end());
    for (size_t i = 1; i < places.size(); ++i) EXPECT_LE(places[i - 1].second, places[i].first);
    for (size_t i = 1; i < order.size(); ++i) {
      EXPECT_LE(layout.offset(order[i - 1]), layout.offset(order[i]));
    }
  }
}

}  // namespace
}  // namespace laneway::pipeline
