// Shows that the early form computes what the late one does, with no more memory: by hand on small
// steps, and on random ones against an interpreter that notices every read of something else.
#include "lanes/graph/early_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/random.h"
#include "lanes/graph/graph_check.h"
#include "lanes/graph/graph_sizes.h"
#include "lanes/graph/list_split.h"
#include "tests/support/graph_builder.h"
#include "tests/support/graph_values.h"
#include "tests/support/random_graph.h"

namespace laneway::lanes {
namespace {

using testing::arg;
using testing::arg_list;
using testing::arg_real;
using testing::computed;
using ::testing::ElementsAre;
using testing::GraphBuilder;
using ::testing::HasSubstr;
constexpr int64_t kAlignment = 64;

std::vector<bool> none(const Graph& graph) { return std::vector<bool>(graph.nodes.size(), false); }

std::vector<std::string> ops(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.op);
  return names;
}

Bytes peak(const Graph& graph) {
  return predict_memory(graph, graph_lifetimes(graph), kAlignment).peak;
}

Argument listed(ValueIndex value) { return {ValueArgument{value}}; }

// Three gradients of 4 KiB, one behind the other; that of slot n reads slot n + 1's weights.
struct Layers {
  GraphBuilder b{"layers"};
  ValueIndex x = b.input({16});
  ValueIndex rate = b.number_input();
  std::vector<ValueIndex> weights, gradients;

  Layers() {
    for (uint32_t i = 0; i < 3; ++i) weights.push_back(b.slot(i, {1024}));
    ValueIndex back = x;
    for (int i = 2; i >= 0; --i) {
      gradients.insert(gradients.begin(), b.compute("g" + std::to_string(i), {arg(back)}, {1024}));
      back = b.compute("b" + std::to_string(i), {arg(back), arg(weights[i])}, {16});
    }
  }
  void update(int i) {
    b.write("u" + std::to_string(i), weights[i], {arg(gradients[i]), arg(rate)});
  }
};

TEST(EarlyForm, AnUpdateStandsBehindTheLastReaderOfItsWeightsAndTheMakerOfItsGradient) {
  Layers layers;
  for (int i = 0; i < 3; ++i) layers.update(i);
  const Graph graph = layers.b.finish();
  const auto early = early_form(graph, none(graph), kAlignment);
  ASSERT_TRUE(early) << early.error().message;
  EXPECT_THAT(ops(early.value().graph),
              ElementsAre("g2", "b2", "u2", "g1", "b1", "u1", "g0", "b0", "u0"));
  EXPECT_EQ(early.value().graph.first_write, 2u);
  EXPECT_EQ(early.value().moved, 2u);  // the last one stands there anyway
  EXPECT_EQ(early.value().late_peak, Bytes(3 * 4096 + 2 * 64));
  EXPECT_EQ(early.value().peak, Bytes(4096 + 2 * 64));
  EXPECT_EQ(peak(early.value().graph), early.value().peak);
  EXPECT_EQ(computed(early.value().graph), computed(graph));
}

TEST(EarlyForm, WhatReadsWhatAnUpdateWritesComesWithIt) {
  Layers layers;
  for (int i = 0; i < 3; ++i) layers.update(i);
  const ValueIndex average = layers.b.slot(3, {1024});
  layers.b.write("ema", average, {arg(layers.weights[2])});
  const Graph graph = layers.b.finish();
  const auto early = early_form(graph, none(graph), kAlignment);
  ASSERT_TRUE(early) << early.error().message;
  EXPECT_THAT(ops(early.value().graph),
              ElementsAre("g2", "b2", "u2", "ema", "g1", "b1", "u1", "g0", "b0", "u0"));
}

TEST(EarlyForm, WeightsThatAreReadOnceMoreWait) {
  Layers layers;
  // Tied weights: the last node before the updates reads them.
  layers.b.compute("tied", {arg(layers.weights[2])}, {16});
  for (int i = 0; i < 3; ++i) layers.update(i);
  const Graph graph = layers.b.finish();
  const auto early = early_form(graph, none(graph), kAlignment);
  ASSERT_TRUE(early) << early.error().message;
  EXPECT_THAT(ops(early.value().graph),
              ElementsAre("g2", "b2", "g1", "b1", "u1", "g0", "b0", "u0", "tied", "u2"));
}

TEST(EarlyForm, AWriteOfAGradientIsNotOvertaken) {
  Layers layers;
  layers.b.write("clip", layers.gradients[2], {arg(layers.x)});
  for (int i = 0; i < 3; ++i) layers.update(i);
  const Graph graph = layers.b.finish();
  const auto early = early_form(graph, none(graph), kAlignment);
  ASSERT_TRUE(early) << early.error().message;
  EXPECT_THAT(ops(early.value().graph),
              ElementsAre("g2", "b2", "g1", "b1", "u1", "g0", "b0", "u0", "clip", "u2"));
}

TEST(EarlyForm, WhatFreesNothingStaysBehindTheFirstLayers) {
  Layers layers;
  const ValueIndex steps = layers.b.slot(4, {1});
  layers.b.write("count", steps, {arg_real(1)});
  for (int i = 0; i < 3; ++i) layers.update(i);
  const Graph graph = layers.b.finish();
  const auto early = early_form(graph, none(graph), kAlignment);
  ASSERT_TRUE(early) << early.error().message;
  EXPECT_EQ(ops(early.value().graph).front(), "g2");
  EXPECT_EQ(early.value().graph.first_write, 2u);
  EXPECT_EQ(computed(early.value().graph), computed(graph));
}

// Two layers. The update of the second one makes 16 KiB of its own, and 64 KiB of an activation are
// alive where it could stand, or soon behind it.
Graph beside_an_activation(bool behind_it, bool is_output) {
  GraphBuilder b("large");
  const ValueIndex x = b.input({16});
  const std::vector<ValueIndex> weights = {b.slot(0, {1024}), b.slot(1, {1024})};
  ValueIndex large = kNoValue;
  if (!behind_it) large = b.compute("large", {arg(x)}, {16384});
  const ValueIndex second = b.compute("g1", {arg(x)}, {1024});
  if (behind_it) large = b.compute("large", {arg(x)}, {16384});
  const ValueIndex seen = b.compute("read", {arg(large)}, {16});
  const ValueIndex first = b.compute("g0", {arg(seen)}, {1024});
  b.write("u0", weights[0], {arg(first)});
  const ValueIndex root = b.compute("root", {arg(second)}, {4096});
  b.write("u1", weights[1], {arg(root)});
  if (is_output) b.output(root);
  return b.finish();
}

TEST(EarlyForm, AnUpdateStaysLateWhereItWouldRaiseThePeak) {
  const auto is_early = [](const Graph& graph) {
    const auto early = early_form(graph, none(graph), kAlignment);
    if (!early) {
      EXPECT_THAT(early.error().message, HasSubstr("need more memory than they free"));
    }
    return early.ok();
  };
  EXPECT_TRUE(is_early(beside_an_activation(/*behind_it=*/true, /*is_output=*/false)));
  EXPECT_FALSE(is_early(beside_an_activation(/*behind_it=*/false, /*is_output=*/false)));
  // What it makes for the client lies beside the activation although that comes later.
  EXPECT_FALSE(is_early(beside_an_activation(/*behind_it=*/true, /*is_output=*/true)));
}

TEST(EarlyForm, SaysWhatKeepsItLate) {
  const auto reason = [](const Graph& graph, const std::vector<bool>& stays) {
    const auto early = early_form(graph, stays, kAlignment);
    return early ? std::string("none") : early.error().message;
  };
  const Graph read_only = testing::inference_graph();
  EXPECT_THAT(reason(read_only, none(read_only)), HasSubstr("it writes no parameter"));

  Layers norm;
  std::vector<NamedArgument> all;
  for (const ValueIndex gradient : norm.gradients) all.push_back(arg(gradient));
  norm.b.compute("norm", std::move(all), {1});
  norm.b.last().source = "train.py:8 in step";
  const auto total = static_cast<ValueIndex>(norm.b.graph().values.size() - 1);
  for (int i = 0; i < 3; ++i) {
    norm.b.write("u", norm.weights[i], {arg(norm.gradients[i]), arg(total)});
  }
  const Graph graph = norm.b.finish();
  EXPECT_THAT(reason(graph, none(graph)),
              HasSubstr("node 6 norm (train.py:8 in step): every update waits for it"));

  Layers noise;
  for (int i = 0; i < 3; ++i) noise.update(i);
  const Graph draws = noise.b.finish();
  EXPECT_THAT(reason(draws, std::vector<bool>(draws.nodes.size(), true)),
              HasSubstr("draw random numbers"));

  GraphBuilder small("small");
  const ValueIndex weight = small.slot(0, {16});
  const ValueIndex big = small.compute("forward", {arg(small.input({16}))}, {1 << 20});
  small.compute("loss", {arg(big)}, {1});
  small.write("u", weight, {arg_real(0.5)});
  const Graph frees_none = small.finish();
  EXPECT_THAT(reason(frees_none, none(frees_none)), HasSubstr("free no memory"));
}

TEST(EarlyForm, ListsAreSplitByElement) {
  Layers layers;
  std::vector<Argument> weights, gradients;
  for (int i = 0; i < 3; ++i) weights.push_back(listed(layers.weights[i]));
  for (int i = 0; i < 3; ++i) gradients.push_back(listed(layers.gradients[i]));
  layers.b.write("aten::_foreach_add_.List", layers.weights[0],
                 {arg_list(gradients), arg(layers.rate)});
  layers.b.last().arguments[0] = arg_list(weights);
  layers.b.last().arguments[1] = arg_list(gradients);
  layers.b.last().writes = layers.weights;
  layers.b.last().results.clear();
  const Graph graph = layers.b.finish();
  const SplitLists split = split_lists(graph);
  ASSERT_EQ(split.graph.nodes.size(), graph.nodes.size() + 2);
  EXPECT_EQ(split.node_was.back(), graph.nodes.size() - 1);
  EXPECT_THAT(split.graph.nodes.back().writes, ElementsAre(layers.weights[2]));
  EXPECT_EQ(computed(split.graph), computed(graph));
  const auto early = early_form(graph, none(graph), kAlignment);
  ASSERT_TRUE(early) << early.error().message;
  EXPECT_EQ(early.value().moved, 2u);
  EXPECT_EQ(computed(early.value().graph), computed(graph));
}

TEST(EarlyForm, ListsWhoseElementsMeetStayWhole) {
  const auto count = [](const std::string& op, std::vector<Argument> a, std::vector<Argument> b,
                        std::vector<ValueIndex> writes, Layers layers) {
    layers.b.write(op, writes[0], {});
    layers.b.last().arguments = {arg_list(std::move(a)), arg_list(std::move(b))};
    layers.b.last().writes = std::move(writes);
    layers.b.last().results.clear();
    const Graph graph = layers.b.finish();
    return split_lists(graph).graph.nodes.size() - graph.nodes.size();
  };
  Layers l;
  const auto w = [&](int i) { return listed(l.weights[i]); };
  const auto g = [&](int i) { return listed(l.gradients[i]); };
  const std::vector<ValueIndex> two = {l.weights[0], l.weights[1]};
  EXPECT_EQ(count("aten::_foreach_add_.List", {w(0), w(1)}, {g(0), g(1)}, two, l), 1u);
  EXPECT_EQ(count("aten::_foreach_add_.List", {w(0), w(1)}, {g(0), w(0)}, two, l), 0u);
  EXPECT_EQ(count("aten::_foreach_add_.List", {w(0), w(1)}, {g(0)}, two, l), 0u);
  EXPECT_EQ(count("aten::_foreach_addcdiv_.Tensor", {w(0), w(1)}, {g(0), g(1)}, two, l), 0u);
  EXPECT_EQ(count("aten::cat_.out", {w(0), w(1)}, {g(0), g(1)}, two, l), 0u);
}

// A training step drawn by chance: layers forward and backward over weights that may be tied,
// updates with momentum, temporaries, shared numbers, averages, lists and outputs in a drawn order.
class RandomStep {
 public:
  explicit RandomStep(uint64_t seed) : random_(seed) {
    for (uint32_t i = 0; i < 6; ++i) {
      weights_.push_back(b_.slot(2 * i, {size()}));
      moments_.push_back(b_.slot(2 * i + 1, {size()}));
    }
  }

  Graph make() {
    forward_and_backward();
    std::vector<size_t> order;
    for (size_t i = 0; i < gradients_.size(); ++i) order.push_back(i);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
    if (random_.chance(0.3)) update_by_lists(order);
    for (const size_t i : order) {
      update(i);
      if (random_.chance(0.1)) b_.output(any(made_));
    }
    b_.output(any(made_));
    return b_.finish();
  }

 private:
  int64_t size() { return random_.between(1, 400); }
  ValueIndex any(const std::vector<ValueIndex>& of) { return of[random_.below(of.size())]; }
  ValueIndex keep(ValueIndex value) {
    made_.push_back(value);
    return value;
  }

  void forward_and_backward() {
    made_.push_back(b_.input({size()}));
    for (size_t i = random_.below(8); i-- > 0;)
      keep(b_.compute("aten::forward", {arg(any(made_)), arg(any(weights_))}, {size()}));
    for (size_t i = 0; i < weights_.size(); ++i) {
      gradients_.push_back(keep(b_.compute("aten::gradient", {arg(any(made_))}, {size()})));
      if (random_.chance(0.6))
        keep(b_.compute("aten::back", {arg(made_.back()), arg(any(weights_))}, {size()}));
      if (random_.chance(0.2)) b_.write("aten::scale", any(gradients_), {arg(rate_)});
      if (random_.chance(0.2)) keep(b_.view(any(gradients_), {0, 1}));
    }
  }

  void update_by_lists(const std::vector<size_t>& order) {
    std::vector<Argument> targets, gradients;
    std::vector<ValueIndex> writes;
    for (const size_t i : order) {
      targets.push_back(listed(moments_[i]));
      gradients.push_back(listed(gradients_[i]));
      writes.push_back(moments_[i]);
    }
    b_.write("aten::_foreach_add_.List", writes[0], {});
    b_.last().arguments = {arg_list(targets), arg_list(gradients)};
    b_.last().writes = writes;
    b_.last().results.clear();
  }

  void update(size_t i) {
    ValueIndex step = gradients_[i];
    if (random_.chance(0.3)) b_.write("aten::decay", step, {arg(weights_[i])});
    if (random_.chance(0.5)) {
      b_.write("aten::momentum", moments_[i], {arg(step)});
      step = moments_[i];
    }
    if (random_.chance(0.4)) step = b_.compute("aten::root", {arg(step)}, {size()});
    if (random_.chance(0.1)) b_.output(step);
    if (random_.chance(0.3))
      rate_ = b_.number("scalar::mul", {arg(rate_), arg_real(0.5)}, ValueKind::real);
    b_.write("aten::step", weights_[i], {arg(step), arg(rate_)});
    if (random_.chance(0.2)) b_.write("aten::average", any(moments_), {arg(any(weights_))});
    if (random_.chance(0.1)) keep(b_.compute("aten::seen", {arg(any(weights_))}, {size()}));
  }

  Random random_;
  GraphBuilder b_{"random step"};
  std::vector<ValueIndex> weights_, moments_, gradients_, made_;
  ValueIndex rate_ = b_.number_input();
};

// Whether it has an early form.
bool holds(const Graph& graph, Random& random) {
  EXPECT_TRUE(check_graph(graph)) << check_graph(graph).error().message;
  std::vector<bool> stays;
  for (const Node& node : graph.nodes)
    stays.push_back(random.chance(0.05) && !node.op.starts_with("aten::_foreach_"));
  const auto early = early_form(graph, stays, kAlignment);
  if (!early) return false;
  const Graph& got = early.value().graph;
  EXPECT_TRUE(check_graph(got)) << check_graph(got).error().message;
  EXPECT_EQ(computed(got), computed(graph));
  EXPECT_EQ(peak(got), early.value().peak);
  EXPECT_EQ(peak(graph), early.value().late_peak);
  EXPECT_LE(early.value().peak, early.value().late_peak);
  EXPECT_LT(got.first_write, graph.nodes.size());
  const auto in_order = [&](const Graph& of) {
    std::vector<Node> kept;
    for (const Node& node : of.nodes) {
      for (size_t i = 0; i < graph.nodes.size(); ++i) {
        if (stays[i] && graph.nodes[i] == node) kept.push_back(node);
      }
    }
    return kept;
  };
  EXPECT_EQ(in_order(got), in_order(graph));
  return true;
}

TEST(EarlyForm, RandomStepsComputeTheSame) {
  int early = 0;
  int lower = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = RandomStep(seed).make();
    Random random(seed);
    early += holds(graph, random) ? 1 : 0;
    const auto found = early_form(graph, none(graph), kAlignment);
    lower += found && found.value().peak < found.value().late_peak ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(early, 1000);  // the others are refused with a reason
  EXPECT_GT(lower, 300);
}

TEST(EarlyForm, RandomGraphsComputeTheSame) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Graph graph = testing::random_graph(random);
    (void)holds(graph, random);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace laneway::lanes
