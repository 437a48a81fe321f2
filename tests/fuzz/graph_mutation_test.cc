// Shows that damaged graphs never hurt: 150,000 graphs with damaged bytes and 50,000 with damaged
// fields are decoded, checked, measured and dumped as a service would, with the invariants that
// graph_exercise.cc holds them to; in the long form 7,500,000 and 2,500,000. Deterministic for a
// seed; that both the decoder and the rules really get work is asserted from the verdicts.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "lanes/graph/graph_codec.h"
#include "tests/fuzz/graph_exercise.h"
#include "tests/fuzz/graph_mutator.h"
#include "tests/support/graph_builder.h"
#include "tests/support/long_form.h"
#include "tests/support/random_graph.h"
#include "tests/support/seed.h"

namespace laneway::testing {
namespace {

int byte_mutants() { return long_form_asked_for() ? 7'500'000 : 150'000; }
int field_mutants() { return long_form_asked_for() ? 2'500'000 : 50'000; }

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
  const int mutants = byte_mutants();
  Random random(seed_from_environment(51));
  const std::vector<lanes::Graph> graphs = corpus(random);
  GraphMutator mutator(random);
  Verdicts verdicts;
  for (int i = 0; i < mutants; ++i) {
    const lanes::Graph& graph = graphs[random.below(graphs.size())];
    verdicts.add(exercise_graph(mutator.mutate(lanes::encode_graph(graph))));
  }
  EXPECT_GT(verdicts[GraphVerdict::malformed], mutants / 10);
  EXPECT_GT(verdicts[GraphVerdict::refused], mutants / 100);
  EXPECT_GT(verdicts[GraphVerdict::valid], mutants / 100);
}

TEST(GraphMutation, DamagedFields) {
  const int mutants = field_mutants();
  Random random(seed_from_environment(52));
  const std::vector<lanes::Graph> graphs = corpus(random);
  GraphMutator mutator(random);
  Verdicts verdicts;
  for (int i = 0; i < mutants; ++i) {
    const lanes::Graph& graph = graphs[random.below(graphs.size())];
    verdicts.add(exercise_graph(lanes::encode_graph(mutator.mutate(graph))));
  }
  EXPECT_GT(verdicts[GraphVerdict::refused], mutants / 3);
  EXPECT_GT(verdicts[GraphVerdict::valid], mutants / 100);
}

TEST(GraphMutation, UndamagedGraphsAreValid) {
  Random random(seed_from_environment(53));
  for (const lanes::Graph& graph : corpus(random)) {
    EXPECT_EQ(exercise_graph(lanes::encode_graph(graph)), GraphVerdict::valid);
  }
}

}  // namespace
}  // namespace laneway::testing
