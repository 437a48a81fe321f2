// Shows that a graph can read the generator's state and put it back: the draws in between come
// again with the same bits, the generator ends where a generator that did the same by hand ends, an
// iteration that was given up at any node leaves no trace in it, and bytes that are no state are
// refused without touching it.
#include "adaptor/operators/random_operators.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/adaptor/graph_rig.h"
#include "tests/support/graph_builder.h"

namespace laneway::adaptor {
namespace {

using lanes::IterationOutcome;
using testing::arg;
using testing::GraphBuilder;
using testing::GraphRig;
using ::testing::HasSubstr;

constexpr int64_t kState = 5056;
constexpr int64_t kMask = 64;

lanes::NamedArgument generator() {
  return testing::keyword("generator", {lanes::GeneratorArgument{}});
}

void restore(GraphBuilder& b, lanes::ValueIndex state) {
  b.graph().nodes.push_back(
      {"laneway::restore_random_state", {arg(state), generator()}, {}, {}, "train.py:7 in step"});
}

lanes::ValueIndex draw(GraphBuilder& b) {
  const auto mask =
      b.compute("aten::zeros", {testing::arg_list({{static_cast<int64_t>(kMask)}})}, {kMask});
  b.write("aten::bernoulli_.float", mask, {testing::arg_real(0.5), generator()});
  return mask;
}

// first, second; back to before the first: again; on from after the second: last.
lanes::Graph checkpointed() {
  GraphBuilder b("checkpointed");
  const auto before =
      b.compute("laneway::random_state", {generator()}, {kState}, lanes::DType::uint8);
  const auto first = draw(b);
  const auto second = draw(b);
  const auto after =
      b.compute("laneway::random_state", {generator()}, {kState}, lanes::DType::uint8);
  restore(b, before);
  const auto again = draw(b);
  restore(b, after);
  const auto last = draw(b);
  for (const auto mask : {first, second, again, last}) b.output(mask);
  return b.finish();
}

using Mask = std::array<float, kMask>;

struct Masks {
  std::array<Mask, 4> drawn{};
  std::vector<lanes::OutputView> outputs() {
    std::vector<lanes::OutputView> views;
    for (Mask& mask : drawn) views.push_back({.data = mask.data(), .bytes = sizeof(Mask)});
    return views;
  }
};

Mask drawn_by_hand(const RandomState& random) {
  const at::Tensor mask = at::empty({kMask}, at::kFloat).bernoulli_(0.5, random.generator());
  Mask values{};
  std::memcpy(values.data(), mask.const_data_ptr(), sizeof(values));
  return values;
}

TEST(RandomOperators, DrawAgainWhatWasDrawn) {
  GraphRig rig(checkpointed(), {});
  HostRandomState twin;
  for (int iteration = 0; iteration < 3; ++iteration) {
    Masks masks;
    ASSERT_EQ(rig.run({}, masks.outputs()).outcome, IterationOutcome::completed);
    EXPECT_EQ(masks.drawn[0], drawn_by_hand(twin));
    EXPECT_EQ(masks.drawn[1], drawn_by_hand(twin));
    EXPECT_EQ(masks.drawn[2], masks.drawn[0]);
    EXPECT_EQ(masks.drawn[3], drawn_by_hand(twin));
    EXPECT_NE(masks.drawn[1], masks.drawn[0]);
    EXPECT_EQ(rig.random().get(), twin.get());
    EXPECT_EQ(rig.use().live_count, 0U);
  }
}

TEST(RandomOperators, LeaveNoTraceInAnIterationThatIsGivenUp) {
  GraphRig rig(checkpointed(), {});
  const auto before = rig.random().get();
  for (size_t node = 0; node <= rig.runner().node_count(); ++node) {
    rig.abandon_at(node, {});
    EXPECT_EQ(rig.random().get(), before) << "given up before node " << node;
  }
}

TEST(RandomOperators, AStateOfZerosLeavesTheGeneratorAsItIs) {
  GraphBuilder b("follows");
  restore(b, b.input({kState}, lanes::DType::uint8));
  b.output(draw(b));
  GraphRig rig(b.finish(), {});
  HostRandomState twin;
  const std::vector<std::byte> zeros(static_cast<size_t>(kState));
  const std::vector<lanes::InputView> inputs = {{.data = zeros.data(), .bytes = zeros.size()}};
  for (int iteration = 0; iteration < 2; ++iteration) {
    Mask mask{};
    const std::vector<lanes::OutputView> outputs = {{.data = mask.data(), .bytes = sizeof(mask)}};
    ASSERT_EQ(rig.run(inputs, outputs).outcome, IterationOutcome::completed);
    EXPECT_EQ(mask, drawn_by_hand(twin));
  }
}

TEST(RandomOperators, RefuseBytesThatAreNoState) {
  for (const int64_t size : {kState, kState - 1}) {
    GraphBuilder b("forged");
    const auto state = b.input({size}, lanes::DType::uint8);
    restore(b, state);
    b.output(draw(b));
    GraphRig rig(b.finish(), {});
    const auto before = rig.random().get();
    const std::vector<std::byte> forged(static_cast<size_t>(size), std::byte{0xFF});
    const std::vector<lanes::InputView> inputs = {{.data = forged.data(), .bytes = forged.size()}};
    Mask mask{};
    const std::vector<lanes::OutputView> outputs = {{.data = mask.data(), .bytes = sizeof(mask)}};
    const auto report = rig.run(inputs, outputs);
    EXPECT_EQ(report.outcome, IterationOutcome::failed_clean);
    EXPECT_THAT(report.error.message, HasSubstr("laneway::restore_random_state"));
    EXPECT_THAT(report.error.message, HasSubstr("from train.py:7 in step"));
    EXPECT_EQ(rig.random().get(), before);
  }
}

}  // namespace
}  // namespace laneway::adaptor
