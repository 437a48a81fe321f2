// Shows that damaged graphs never hurt: 150,000 graphs with damaged bytes and 50,000 with damaged
// fields are decoded, checked, measured and dumped as a service would, with the invariants that
// graph_exercise.cc holds them to. Deterministic for a seed; that both the decoder and the rules
// really get work is asserted from the verdicts.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "lanes/graph/graph_codec.h"
#include "tests/fuzz/graph_exercise.h"
#include "tests/fuzz/graph_mutator.h"
#include "tests/support/graph_builder.h"
#include "tests/support/random_graph.h"
#include "tests/support/seed.h"

namespace laneway::testing {
namespace {

constexpr int kByteMutants = 150'000;
constexpr int kFieldMutants = 50'000;

std::vector<lanes::Graph> corpus(Random& random) {
  std::vector<lanes::Graph> graphs = {training_graph(), inference_graph(), every_kind_graph()};
  for (int i = 0; i < 20; ++i) graphs.push_back(random_graph(random));
  return graphs;
}

struct Verdicts {
  std::array<int, 3> counts{};
  int operator[](GraphVerdict verdict) const { return counts[static_cast<size_t>(verdict)]; }
  void add(GraphVerdict verdict) { ++counts[static_cast<size_t>(verdict)]; }
};

TEST(GraphMutation, DamagedBytes) {
  Random random(seed_from_environment(51));
  const std::vector<lanes::Graph> graphs = corpus(random);
  GraphMutator mutator(random);
  Verdicts verdicts;
  for (int i = 0; i < kByteMutants; ++i) {
    const lanes::Graph& graph = graphs[random.below(graphs.size())];
    verdicts.add(exercise_graph(mutator.mutate(lanes::encode_graph(graph))));
  }
  EXPECT_GT(verdicts[GraphVerdict::malformed], kByteMutants / 10);
  EXPECT_GT(verdicts[GraphVerdict::refused], kByteMutants / 100);
  EXPECT_GT(verdicts[GraphVerdict::valid], kByteMutants / 100);
}

TEST(GraphMutation, DamagedFields) {
  Random random(seed_from_environment(52));
  const std::vector<lanes::Graph> graphs = corpus(random);
  GraphMutator mutator(random);
  Verdicts verdicts;
  for (int i = 0; i < kFieldMutants; ++i) {
    const lanes::Graph& graph = graphs[random.below(graphs.size())];
    verdicts.add(exercise_graph(lanes::encode_graph(mutator.mutate(graph))));
  }
  EXPECT_GT(verdicts[GraphVerdict::refused], kFieldMutants / 3);
  EXPECT_GT(verdicts[GraphVerdict::valid], kFieldMutants / 100);
}

TEST(GraphMutation, UndamagedGraphsAreValid) {
  Random random(seed_from_environment(53));
  for (const lanes::Graph& graph : corpus(random)) {
    EXPECT_EQ(exercise_graph(lanes::encode_graph(graph)), GraphVerdict::valid);
  }
}

}  // namespace
}  // namespace laneway::testing
