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

// The first request behind the link finds what must stay, the next ones change nothing.
TEST(Prefix, OfARequestThatTookLongerIsWhatTheLinkCarriesMeanwhile) {
  const int64_t rate = 1'000'000'000;
  const Duration ready = milliseconds(10);
  const Bytes image(24'000'000);
  const auto took = [&](Bytes kept) {
    const Duration link((image - kept).count() * 1'000'000'000 / rate);
    return std::max(ready, link);
  };
  Bytes prefix = prefix_for_exposed({}, took({}) - ready, rate);
  EXPECT_EQ(prefix, Bytes(14'000'000));
  EXPECT_EQ(took(prefix), ready);
  EXPECT_GT(took(prefix - Bytes(1)), ready);
  EXPECT_EQ(prefix_for_exposed(prefix, took(prefix) - ready, rate), prefix);
  // A half of it stayed: the wish is the same.
  EXPECT_EQ(prefix_for_exposed(Bytes(7'000'000), took(Bytes(7'000'000)) - ready, rate), prefix);
  EXPECT_EQ(prefix_for_exposed(prefix, ready * -1, rate), prefix) << "sooner than usual";
  // A link that carries a third of a byte in that time brings none: one more must stay.
  EXPECT_EQ(prefix_for_exposed({}, Duration(1), rate / 3), Bytes(1));
}

TEST(Prefix, ARecordingIsSoonerWhereTheLinkIsAndItsNodesAreNot) {
  const int64_t rate = 50'000'000'000;
  RecordedArrival graph{
      .missing = Bytes(250'000'000), .by_nodes = milliseconds(17), .replayed = milliseconds(4)};
  EXPECT_TRUE(replay_is_sooner(graph, rate));         // 5 + 4 ms
  EXPECT_FALSE(replay_is_sooner(graph, rate / 3));    // 15 + 4 ms
  EXPECT_FALSE(replay_is_sooner(graph, rate / 100));  // nodes wait for the link too, but for less
  graph.missing = {};
  EXPECT_TRUE(replay_is_sooner(graph, rate));
  EXPECT_FALSE(replay_is_sooner(graph, 0));
  graph.by_nodes = milliseconds(4);
  EXPECT_FALSE(replay_is_sooner(graph, rate)) << "as soon";
  graph.by_nodes = {};
  EXPECT_FALSE(replay_is_sooner(graph, rate)) << "not known";
  graph = {.missing = {}, .by_nodes = milliseconds(4), .replayed = {}};
  EXPECT_FALSE(replay_is_sooner(graph, rate)) << "not known";
}

}  // namespace
}  // namespace laneway::pipeline
