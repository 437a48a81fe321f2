// Shows the text forms of sizes in both directions and the alignment arithmetic.
#include "base/bytes.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/seed.h"

namespace laneway {
namespace {

TEST(Bytes, TextHasTheLargestUnitThatKeepsTheNumberAtLeastOne) {
  EXPECT_EQ(format_bytes(Bytes(0)), "0 B");
  EXPECT_EQ(format_bytes(Bytes(640)), "640 B");
  EXPECT_EQ(format_bytes(Bytes(1023)), "1023 B");
  EXPECT_EQ(format_bytes(kib(1)), "1 KiB");
  EXPECT_EQ(format_bytes(mib(512)), "512 MiB");
  EXPECT_EQ(format_bytes(mib(1536)), "1.5 GiB");
  EXPECT_EQ(format_bytes(Bytes(-2048)), "-2 KiB");
}

TEST(Bytes, EveryAcceptedFormIsRead) {
  const auto reads = [](std::string_view text, Bytes expected) {
    const Result<Bytes> got = parse_bytes(text);
    return got.ok() && got.value() == expected;
  };
  EXPECT_TRUE(reads("4096", Bytes(4096)));
  EXPECT_TRUE(reads("64KiB", kib(64)));
  EXPECT_TRUE(reads("64k", kib(64)));
  EXPECT_TRUE(reads("1.5 GiB", mib(1536)));
  EXPECT_TRUE(reads("512mib", mib(512)));
  EXPECT_TRUE(reads("2 T", gib(2048)));
  EXPECT_TRUE(reads("0", Bytes(0)));
}

TEST(Bytes, WhatIsNotASizeIsRefusedWithTheText) {
  for (const char* text :
       {"", "MiB", "12 XB", "-1", "nan", "inf", "1e30", "5 MiB x", "0x10", "9999999 TiB"}) {
    const Result<Bytes> got = parse_bytes(text);
    ASSERT_FALSE(got.ok()) << text;
    EXPECT_EQ(got.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(got.error().message.find("'" + std::string(text) + "'"), std::string::npos);
  }
}

TEST(Bytes, WholeUnitsSurviveTheRoundTrip) {
  Random random(testing::seed_from_environment(40));
  for (int i = 0; i < 1000; ++i) {
    const auto number = static_cast<int64_t>(random.below(1023) + 1);
    for (const Bytes bytes : {Bytes(number), kib(number), mib(number), gib(number)}) {
      EXPECT_EQ(parse_bytes(format_bytes(bytes)).value(), bytes);
    }
  }
}

TEST(Bytes, AlignmentRoundsUpToTheNextMultiple) {
  for (int64_t bytes = 0; bytes < 1000; ++bytes) {
    for (const int64_t alignment : {1, 64, 512}) {
      const int64_t got = Bytes(bytes).aligned_up(alignment).count();
      EXPECT_EQ(got % alignment, 0);
      EXPECT_GE(got, bytes);
      EXPECT_LT(got, bytes + alignment);
    }
  }
}

}  // namespace
}  // namespace laneway
