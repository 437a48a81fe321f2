// Shows that the prefix is the smallest one with which nobody waits, by playing a link that brings
// the rest while nodes run: with the prefix no node waits, with one byte less some node does.
#include "pipeline/prefix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/support/seed.h"

namespace laneway::pipeline {
namespace {

struct Case {
  std::vector<Bytes> needs;
  std::vector<Duration> starts;
  int64_t rate = 1;
};

// Needs never shrink from node to node, times never go back; either may stand still.
Case draw(std::mt19937_64& random) {
  Case drawn;
  const size_t nodes = 1 + random() % 30;
  int64_t need = 0;
  int64_t start = 0;
  for (size_t i = 0; i < nodes; ++i) {
    need += static_cast<int64_t>(random() % 3 == 0 ? 0 : random() % 5'000'000);
    drawn.needs.emplace_back(need);
    drawn.starts.emplace_back(start);
    start += static_cast<int64_t>(random() % 4 == 0 ? 0 : random() % 3'000'000);
  }
  drawn.rate = 1'000'000 * static_cast<int64_t>(1 + random() % 5'000);
  return drawn;
}

// Whether some node waits: its last byte is not there when it could begin. Whole bytes: one that
// is on its way is not there.
bool anybody_waits(const Case& one, Bytes prefix) {
  for (size_t i = 0; i < one.needs.size(); ++i) {
    const int64_t came = one.starts[i].ns() * one.rate / 1'000'000'000;
    if (prefix.count() + came < one.needs[i].count()) return true;
  }
  return false;
}

TEST(Prefix, IsTheSmallestWithWhichNobodyWaits) {
  std::mt19937_64 random(testing::seed_from_environment(3));
  int some = 0;
  for (int i = 0; i < 2'000; ++i) {
    const Case one = draw(random);
    const Bytes prefix = prefix_for({one.needs, one.starts}, one.rate);
    ASSERT_GE(prefix, Bytes());
    ASSERT_LE(prefix, one.needs.back());
    EXPECT_FALSE(anybody_waits(one, prefix));
    if (prefix == Bytes()) continue;
    ++some;
    EXPECT_TRUE(anybody_waits(one, prefix - Bytes(1)));
  }
  EXPECT_GT(some, 100);
}

TEST(Prefix, IsNothingWhereTheLinkIsFastEnoughAndAllButWhatComesMeanwhileWhereItIsNot) {
  const std::vector<Bytes> needs{Bytes(0), Bytes(100), Bytes(1000)};
  const std::vector<Duration> starts{Duration(), seconds(1), seconds(10)};
  EXPECT_EQ(prefix_for({needs, starts}, 100), Bytes(0));
  EXPECT_EQ(prefix_for({needs, starts}, 10), Bytes(900));
  EXPECT_EQ(prefix_for({needs, starts}, 99), Bytes(10));
}

TEST(Prefix, BytesOfTheFirstNodeAreInIt) {
  const std::vector<Bytes> needs{Bytes(64), Bytes(128)};
  const std::vector<Duration> starts{Duration(), seconds(1)};
  EXPECT_EQ(prefix_for({needs, starts}, 1'000'000'000), Bytes(64));
}

}  // namespace
}  // namespace laneway::pipeline
