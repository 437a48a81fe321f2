// Shows that a plan comes back from its bytes as it was, and that no other bytes become a plan: cut
// short anywhere, with any byte changed, or of another graph, they are none, or one that is sound.
#include "service/worker/run/plan_record.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "tests/support/plan_check.h"

namespace laneway::service {
namespace {

constexpr PlanSubject kSubject{.graph_key = 17, .nodes = 2, .alignment = limits::kHostAlignment};

PlanRecord record() {
  memory::AllocationTape tape{.allocations = {{1000, 0}, {2000, 0}, {500, 1}}, .frees = {0, 1, 2}};
  memory::Plan plan = memory::plan_tape(tape, {.alignment = limits::kHostAlignment});
  return {.planned = memory::make_planned_tape(std::move(tape), std::move(plan)),
          .marks = {{0, 0}, {2, 1}, {3, 3}},
          .plan_s = 0.25};
}

TEST(PlanRecord, ComesBackAsItWas) {
  const PlanRecord before = record();
  std::vector<std::byte> bytes = encode_plan(kSubject, before);
  bytes.resize(bytes.size() + 3000);  // pieces are whole pages
  const auto after = decode_plan(kSubject, bytes);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->planned->tape.hash(), before.planned->tape.hash());
  EXPECT_EQ(after->planned->plan.offsets, before.planned->plan.offsets);
  EXPECT_EQ(after->planned->plan.peak, before.planned->plan.peak);
  EXPECT_EQ(after->planned->free_offsets, before.planned->free_offsets);
  EXPECT_EQ(after->marks, before.marks);
  EXPECT_EQ(after->plan_s, before.plan_s);
}

TEST(PlanRecord, OfAnotherGraphOrDeviceIsNone) {
  const std::vector<std::byte> bytes = encode_plan(kSubject, record());
  EXPECT_FALSE(decode_plan({.graph_key = 18, .nodes = 2, .alignment = 64}, bytes));
  EXPECT_FALSE(decode_plan({.graph_key = 17, .nodes = 3, .alignment = 64}, bytes));
  EXPECT_FALSE(decode_plan({.graph_key = 17, .nodes = 2, .alignment = 512}, bytes));
}

TEST(PlanRecord, CutShortAnywhereIsNone) {
  const std::vector<std::byte> bytes = encode_plan(kSubject, record());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_plan(kSubject, std::span(bytes).first(size))) << size << " bytes";
  }
}

TEST(PlanRecord, WithAnyByteChangedIsNoneOrSound) {
  const std::vector<std::byte> bytes = encode_plan(kSubject, record());
  int dropped = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int change : {1, 0x40, 0x80, 0xff}) {
      std::vector<std::byte> damaged = bytes;
      damaged[at] ^= static_cast<std::byte>(change);
      const auto read = decode_plan(kSubject, damaged);
      if (!read) {
        ++dropped;
        continue;
      }
      EXPECT_TRUE(read->planned->tape.well_formed()) << "byte " << at;
      EXPECT_TRUE(memory::check_plan(read->planned->tape, read->planned->plan)) << "byte " << at;
      EXPECT_TRUE(read->marks.empty() || read->marks.size() == kSubject.nodes + 1);
      EXPECT_GE(read->plan_s, 0);
    }
  }
  EXPECT_GT(dropped, 100);
}

TEST(PlanRecord, MarksThatMakeNoSenseAreLeftOut) {
  PlanRecord damaged = record();
  damaged.marks = {{0, 0}, {2, 1}, {1, 3}};
  const auto read = decode_plan(kSubject, encode_plan(kSubject, damaged));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->marks.empty());
}

}  // namespace
}  // namespace laneway::service
