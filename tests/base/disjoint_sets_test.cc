#include "base/disjoint_sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace laneway {
namespace {

TEST(DisjointSets, EachIsAloneAtFirst) {
  DisjointSets sets(3);
  for (uint32_t member = 0; member < 3; ++member) EXPECT_EQ(sets.find(member), member);
}

// Against labels that are all rewritten at each join.
TEST(DisjointSets, MembersAreTogetherWhenAChainOfJoinsLeadsFromOneToTheOther) {
  constexpr uint32_t kCount = 40;
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    DisjointSets sets(kCount);
    std::vector<uint32_t> labels(kCount);
    for (uint32_t member = 0; member < kCount; ++member) labels[member] = member;
    for (int joins = 0; joins < 30; ++joins) {
      const auto a = static_cast<uint32_t>(random() % kCount);
      const auto b = static_cast<uint32_t>(random() % kCount);
      sets.join(a, b);
      std::ranges::replace(labels, uint32_t(labels[a]), uint32_t(labels[b]));
      for (uint32_t one = 0; one < kCount; ++one) {
        for (uint32_t other = 0; other < kCount; ++other) {
          ASSERT_EQ(sets.find(one) == sets.find(other), labels[one] == labels[other]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace laneway
