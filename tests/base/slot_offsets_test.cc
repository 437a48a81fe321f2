// Shows where client and worker look for the first bytes of a job's slots.
#include "base/slot_offsets.h"

#include <gtest/gtest.h>

#include <vector>

namespace laneway {
namespace {

TEST(SlotOffsets, FollowEachOther) {
  std::vector<ImageSlot> slots;
  for (const uint64_t bytes : {1, 64, 0, 65}) slots.push_back({.name = "slot", .bytes = bytes});
  const SlotOffsets places = slot_offsets(slots);
  EXPECT_EQ(places.offsets, (std::vector<uint64_t>{0, 64, 128, 128}));
  EXPECT_EQ(places.total, 256U);
}

}  // namespace
}  // namespace laneway
