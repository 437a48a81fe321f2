// Shows that sizes, first uses, lifetimes and the predicted tape are right: by hand on the training
// graph of graph_builder.h, and on random graphs against a naive model that keeps a set of live
// values and asks, for each storage and node, whether any later node or output still names it.
#include "lanes/graph/graph_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lanes/graph/graph_facts.h"
#include "tests/support/graph_builder.h"
#include "tests/support/random_graph.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
constexpr int64_t kAlignment = 64;

std::vector<uint32_t> at(const PerNodeLists& lists, uint32_t node) {
  return {lists.at(node).begin(), lists.at(node).end()};
}

std::vector<uint32_t> made_by_each_node(const GraphMemory& memory) {
  std::vector<uint32_t> made;
  for (size_t i = 0; i + 1 < memory.marks.size(); ++i) {
    made.push_back(memory.marks[i + 1].allocations - memory.marks[i].allocations);
  }
  return made;
}

std::vector<uint32_t> freed_behind_each_node(const GraphMemory& memory) {
  std::vector<uint32_t> freed;
  for (size_t i = 0; i + 1 < memory.marks.size(); ++i) {
    freed.push_back(memory.marks[i + 1].frees - memory.marks[i].frees);
  }
  return freed;
}

TEST(GraphSizes, TrainingGraphByHand) {
  const Graph graph = testing::training_graph();
  // Nodes: 0 t_copy, 1 addmm, 2 sub, 3 view, 4 mean, 5 t_copy, 6 mm, 7 sum, 8 scalar, 9 and 10 the
  // writes. Storages: 0 to 3 inputs and slots, then 4 flipped, 5 guess, 6 error (and its view), 7
  // loss, 8 turned, 9 gradient, 10 bias gradient.
  EXPECT_THAT(first_use_order(graph, 4), ElementsAre(1, 0, 2, 3));
  EXPECT_EQ(graph.first_write, 9u);

  const GraphLifetimes lifetimes = graph_lifetimes(graph);
  EXPECT_THAT(at(lifetimes.storages_dying, 1), ElementsAre(4));
  EXPECT_THAT(at(lifetimes.storages_dying, 2), ElementsAre(5));
  EXPECT_THAT(at(lifetimes.storages_dying, 4), IsEmpty());  // the error is still needed
  EXPECT_THAT(at(lifetimes.storages_dying, 6), ElementsAre(8));
  EXPECT_THAT(at(lifetimes.storages_dying, 7), ElementsAre(6));
  EXPECT_THAT(at(lifetimes.storages_dying, 9), ElementsAre(9));
  EXPECT_THAT(at(lifetimes.storages_dying, 10), ElementsAre(10));
  EXPECT_THAT(at(lifetimes.storages_made, 3), IsEmpty());
  EXPECT_THAT(at(lifetimes.storages_made, 6), ElementsAre(9));

  const GraphMemory memory = predict_memory(graph, lifetimes, kAlignment);
  // Rounded up to 64: flipped 128, guess, error, loss, turned 64 each, gradient 128, bias gradient
  // 64.
  const std::vector<int64_t> live = {128, 192, 128, 64, 128, 192, 320, 320, 256, 256, 128};
  ASSERT_EQ(memory.live.size(), live.size());
  for (size_t i = 0; i < live.size(); ++i) EXPECT_EQ(memory.live[i].count(), live[i]) << i;
  EXPECT_EQ(memory.peak, Bytes(320));
  EXPECT_EQ(memory.reach[8], Bytes(256));
  EXPECT_EQ(memory.reach[10], Bytes(128));
  EXPECT_EQ(memory.reach[11], Bytes(64));  // the loss
  EXPECT_THAT(memory.tape.frees, ElementsAre(0, 1, 4, 2, 5, 6, 3));
  // Nodes 0, 1, 2, 4, 5, 6, 7 make one each; frees behind 1, 2, 6, 7, 9, 10; the loss outlives all.
  EXPECT_THAT(made_by_each_node(memory), ElementsAre(1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 0));
  EXPECT_THAT(freed_behind_each_node(memory), ElementsAre(0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1));
}

TEST(GraphSizes, OutputThatIsAViewKeepsItsStorage) {
  const Graph graph = testing::inference_graph();
  const GraphMemory memory = predict_memory(graph, graph_lifetimes(graph), kAlignment);
  EXPECT_EQ(memory.reach.back(), Bytes(64));
  EXPECT_EQ(memory.tape.frees.size(), memory.tape.allocations.size());
}

// Whether a node after `node` or an output names a value of the storage.
bool named_later(const Graph& graph, uint32_t storage, uint32_t node) {
  bool named = false;
  const auto look = [&](ValueIndex value) {
    const Value& v = graph.values[value];
    named = named || (v.kind == ValueKind::tensor && v.storage == storage);
  };
  for (uint32_t i = node + 1; i < graph.nodes.size(); ++i) {
    for_each_argument_value(graph.nodes[i], look);
    for_each_result_value(graph.nodes[i], look);
  }
  for (const ValueIndex output : graph.outputs) look(output);
  return named;
}

TEST(GraphSizes, RandomGraphsAgreeWithTheNaiveModel) {
  Random random(testing::seed_from_environment(11));
  for (int round = 0; round < 300; ++round) {
    const Graph graph = testing::random_graph(random);
    const GraphLifetimes lifetimes = graph_lifetimes(graph);
    const GraphMemory memory = predict_memory(graph, lifetimes, kAlignment);
    std::set<uint32_t> alive;
    Bytes peak;
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
      for_each_result_value(graph.nodes[i], [&](ValueIndex value) {
        const Storage* storage = storage_of(graph, value);
        if (storage != nullptr && storage->kind == StorageKind::ephemeral) {
          alive.insert(graph.values[value].storage);
        }
      });
      Bytes sum;
      for (const uint32_t s : alive) {
        sum += Bytes(static_cast<int64_t>((graph.storages[s].bytes + 63) / 64 * 64));
      }
      ASSERT_EQ(memory.live[i], sum) << "round " << round << " node " << i;
      peak = std::max(peak, sum);
      std::set<uint32_t> dead;
      for (const uint32_t s : alive) {
        if (!named_later(graph, s, i)) dead.insert(s);
      }
      const auto dying = lifetimes.storages_dying.at(i);
      ASSERT_EQ(std::set<uint32_t>(dying.begin(), dying.end()), dead) << round << " node " << i;
      for (const uint32_t s : dead) alive.erase(s);
    }
    ASSERT_EQ(memory.peak, std::max(peak, memory.reach.back()));
  }
}

// Replays the tape: frees name live allocations, all are freed at the end, and the highest sum of
// live bytes is the predicted peak.
TEST(GraphSizes, TapeOfRandomGraphsReplaysToThePeak) {
  Random random(testing::seed_from_environment(12));
  for (int round = 0; round < 300; ++round) {
    const Graph graph = testing::random_graph(random);
    const GraphMemory memory = predict_memory(graph, graph_lifetimes(graph), kAlignment);
    const auto& tape = memory.tape;
    std::set<uint32_t> alive;
    size_t freed = 0;
    Bytes live;
    Bytes peak;
    const auto free_until = [&](size_t count) {
      for (; freed < count; ++freed) {
        ASSERT_EQ(alive.erase(tape.frees[freed]), 1u);
        live -= Bytes(static_cast<int64_t>(tape.allocations[tape.frees[freed]].bytes))
                    .aligned_up(kAlignment);
      }
    };
    for (uint32_t i = 0; i < tape.allocations.size(); ++i) {
      free_until(tape.allocations[i].frees_before);
      alive.insert(i);
      live += Bytes(static_cast<int64_t>(tape.allocations[i].bytes)).aligned_up(kAlignment);
      peak = std::max(peak, live);
    }
    free_until(tape.frees.size());
    ASSERT_TRUE(alive.empty());
    ASSERT_EQ(peak, memory.peak);
  }
}

// Every node-made value that is no output dies once, after its last use and not before.
TEST(GraphSizes, ValuesDieOnceAfterTheirLastUse) {
  Random random(testing::seed_from_environment(13));
  for (int round = 0; round < 200; ++round) {
    const Graph graph = testing::random_graph(random);
    const GraphLifetimes lifetimes = graph_lifetimes(graph);
    std::set<ValueIndex> dead;
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const auto require_alive = [&](ValueIndex value) { ASSERT_FALSE(dead.contains(value)); };
      for_each_argument_value(graph.nodes[i], require_alive);
      for (const ValueIndex value : lifetimes.values_dying.at(i)) {
        ASSERT_TRUE(dead.insert(value).second);
      }
    }
    for (const ValueIndex output : graph.outputs) ASSERT_FALSE(dead.contains(output));
    const std::set<ValueIndex> outputs(graph.outputs.begin(), graph.outputs.end());
    for (const Node& node : graph.nodes) {
      for_each_result_value(node, [&](ValueIndex value) {
        ASSERT_TRUE(dead.contains(value) || outputs.contains(value)) << value;
      });
    }
  }
}

TEST(GraphSizes, FirstUseOrderIsAPermutation) {
  Random random(testing::seed_from_environment(14));
  for (int round = 0; round < 100; ++round) {
    const std::vector<uint32_t> order = first_use_order(testing::random_graph(random), 6);
    EXPECT_EQ(std::set<uint32_t>(order.begin(), order.end()).size(), 6u);
    EXPECT_EQ(order.size(), 6u);
  }
}

}  // namespace
}  // namespace laneway::lanes
