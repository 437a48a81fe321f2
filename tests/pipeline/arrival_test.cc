// Shows how much of an image each node waits for: the end of every slot that it or a node before it
// reads, writes or gives a view of; and the outputs those that they lie in.
#include "pipeline/arrival.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/support/graph_builder.h"

namespace laneway::pipeline {
namespace {

using laneway::testing::arg;
using laneway::testing::GraphBuilder;
using ::testing::ElementsAre;

const std::vector<lanes::ImageSlot> kSlots = {
    {.name = "a", .kind = lanes::SlotKind::parameter, .bytes = 16},
    {.name = "b", .kind = lanes::SlotKind::parameter, .bytes = 32},
    {.name = "c", .kind = lanes::SlotKind::buffer, .bytes = 8},
};

ImageLayout layout(std::array<uint32_t, 3> order) { return {kSlots, order, 64}; }

TEST(ArrivalNeeds, FollowTheSlotsThatNodesUse) {
  GraphBuilder graph("steps");
  const auto input = graph.input({4});
  const auto a = graph.slot(0, {4});
  const auto b = graph.slot(1, {8});
  const auto first = graph.compute("aten::relu", {arg(input)}, {4});
  const auto second = graph.compute("aten::add.Tensor", {arg(first), arg(a)}, {4});
  const auto wide = graph.view(b, {2, 4});
  const auto third = graph.compute("aten::add.Tensor", {arg(second), arg(wide)}, {2, 4});
  graph.output(third);
  const lanes::Graph made = graph.finish();
  EXPECT_THAT(arrival_needs(made, layout({0, 1, 2})),
              ElementsAre(Bytes(0), Bytes(16), Bytes(96), Bytes(96), Bytes(96)));
  // In another order than this graph's: what comes first is waited for last, and never less.
  EXPECT_THAT(arrival_needs(made, layout({1, 2, 0})),
              ElementsAre(Bytes(0), Bytes(144), Bytes(144), Bytes(144), Bytes(144)));
}

TEST(ArrivalNeeds, WrittenSlotsAndOutputsCount) {
  GraphBuilder graph("writes");
  const auto input = graph.input({4});
  const auto a = graph.slot(0, {4});
  const auto c = graph.slot(2, {2});
  graph.write("aten::add_.Tensor", a, {arg(input)});
  graph.output(c);
  EXPECT_THAT(arrival_needs(graph.finish(), layout({0, 1, 2})), ElementsAre(Bytes(16), Bytes(136)));
}

}  // namespace
}  // namespace laneway::pipeline
