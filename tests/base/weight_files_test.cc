// Shows which descriptions of weights in files are taken, and that what lies elsewhere, overlaps or
// overflows is refused with the names of slot and file.
#include "base/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/limits.h"

namespace laneway {
namespace {

using testing::HasSubstr;

constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();

const std::vector<ImageSlot> kSlots = {
    {.name = "first", .kind = SlotKind::parameter, .bytes = 100},
    {.name = "second", .kind = SlotKind::buffer, .bytes = 40},
};

FileRange range(uint32_t slot, uint64_t slot_offset, uint64_t file_offset, uint64_t bytes,
                uint32_t file = 0) {
  return {.slot = slot,
          .file = file,
          .slot_offset = slot_offset,
          .file_offset = file_offset,
          .bytes = bytes};
}

Status check(std::vector<FileRange> ranges) {
  const WeightFiles weights{
      .files = {{.name = "a.weights", .bytes = 120}, {.name = "b.weights", .bytes = 0}},
      .ranges = std::move(ranges)};
  return check_weight_files(kSlots, weights);
}

TEST(WeightFiles, RangesInOrderAreTaken) {
  EXPECT_TRUE(check({}));
  EXPECT_TRUE(check({range(0, 0, 0, 60), range(0, 60, 80, 40), range(1, 5, 85, 35)}));
  EXPECT_TRUE(check({range(1, 40, 0, 0, 1)})) << "no bytes of an empty file";
}

TEST(WeightFiles, WhatLiesElsewhereIsRefusedByName) {
  struct Case {
    std::vector<FileRange> ranges;
    const char* words;
  };
  const std::vector<Case> cases = {
      {{range(2, 0, 0, 1)}, "slot 2"},
      {{range(0, 0, 0, 1, 2)}, "file 2"},
      {{range(0, 41, 0, 60)}, "'first' has 100 bytes"},
      {{range(0, kHuge, 0, 2)}, "'first' has 100 bytes"},
      {{range(0, 1, 0, kHuge)}, "'first' has 100 bytes"},
      {{range(0, 0, 21, 100)}, "'a.weights'"},
      {{range(0, 0, kHuge - 3, 5)}, "the file has 120"},
      {{range(1, 0, 0, 1, 1)}, "cut short"},
      {{range(1, 0, 0, 1), range(0, 0, 0, 1)}, "order"},
      {{range(0, 0, 0, 10), range(0, 9, 0, 1)}, "overlap"},
      {{range(0, 10, 0, 10), range(0, 0, 0, 5)}, "overlap"},
  };
  for (const Case& one : cases) {
    const Status refused = check(one.ranges);
    ASSERT_FALSE(refused) << one.words;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(refused.error().message, HasSubstr(one.words));
  }
}

TEST(WeightFiles, TooManyFilesAreRefused) {
  WeightFiles weights;
  weights.files.resize(limits::kMaxWeightFiles);
  EXPECT_TRUE(check_weight_files(kSlots, weights));
  weights.files.emplace_back();
  EXPECT_THAT(check_weight_files(kSlots, weights).error().message, HasSubstr("12 at most"));
}

}  // namespace
}  // namespace laneway
