// Shows what of a graph stays on the CPU when its job runs elsewhere: counters that are read as
// numbers, and what computes them, and nothing else; which of a graph's storages hold the same in
// every iteration; what inputs and outputs add to a lane. On graphs written by hand, in the forms
// in which optimizers are captured.
#include "adaptor/run/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adaptor/checks/stable_storages.h"
#include "adaptor/run/device_memory.h"
#include "tests/support/graph_builder.h"

namespace laneway::adaptor {
namespace {

using lanes::ValueIndex;
using lanes::ValueKind;
using testing::arg;
using testing::arg_list;
using testing::arg_real;
using ::testing::ElementsAre;
using testing::GraphBuilder;
using ::testing::IsEmpty;
using testing::keyword;

bool every_slot(uint32_t /*slot*/) { return true; }

ValueIndex read_number(GraphBuilder& b, ValueIndex tensor) {
  return b.number("aten::_local_scalar_dense", {arg(tensor)}, ValueKind::real);
}

Placement placed(const lanes::Graph& graph) { return Placement::of(graph, every_slot); }

bool places_a_node(const Placement& placement, const lanes::Graph& graph) {
  bool any = false;
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    any = any || placement.node_on_host(node);
  }
  return any;
}

bool is_all_on_device(const lanes::Graph& graph) { return !places_a_node(placed(graph), graph); }

// Adam as it is captured with a loop: a counter is counted up, read, and what is read scales the
// update of the parameter.
struct Adam {
  GraphBuilder b{"adam"};
  ValueIndex step = b.slot(1, {});
  ValueIndex parameter = b.slot(0, {4});
  lanes::Graph finish() {
    b.write("aten::add_.Tensor", step, {testing::arg_int(1)});
    const auto count = read_number(b, step);
    const auto power = b.number("scalar::pow", {arg_real(0.9), arg(count)}, ValueKind::real);
    b.write("aten::mul_.Scalar", parameter, {arg(power)});
    return b.finish();
  }
};

TEST(Placement, ACounterThatIsReadStaysOnTheCpuAndItsParameterDoesNot) {
  Adam adam;
  const lanes::Graph graph = adam.finish();
  const Placement placement = placed(graph);
  EXPECT_THAT(placement.host_slots(), ElementsAre(1U));
  EXPECT_TRUE(placement.value_on_host(graph, adam.step));
  EXPECT_FALSE(placement.value_on_host(graph, adam.parameter));
  EXPECT_TRUE(placement.writes_host_slots());
  EXPECT_TRUE(placement.node_on_host(0));
  EXPECT_TRUE(placement.node_on_host(1)) << "a number is read where it lies";
  EXPECT_FALSE(placement.node_on_host(2)) << "numbers alone are nowhere";
  EXPECT_FALSE(placement.node_on_host(3));
}

TEST(Placement, CountersInAListStayTogether) {
  GraphBuilder b("foreach");
  const auto first = b.slot(0, {});
  const auto second = b.slot(1, {});
  const auto parameter = b.slot(2, {4});
  const auto one = b.compute("aten::full", {arg_list({}), arg_real(1)}, {});
  b.write("aten::add_.Tensor", first, {arg(one)});
  b.last().op = "aten::_foreach_add_.Tensor";
  b.last().arguments[0] = arg_list({{lanes::ValueArgument{first}}, {lanes::ValueArgument{second}}});
  b.last().writes = {first, second};
  b.write("aten::mul_.Scalar", parameter, {arg(read_number(b, first))});
  const lanes::Graph graph = b.finish();
  const Placement placement = placed(graph);
  EXPECT_THAT(placement.host_slots(), ElementsAre(0U, 1U));
  EXPECT_TRUE(placement.value_on_host(graph, one)) << "made where it is used";
}

TEST(Placement, OneTensorOfTheDevicesTakesAllThatItTouchesWithIt) {
  GraphBuilder b("fused");
  const auto step = b.slot(1, {});
  const auto other = b.slot(2, {});
  const auto parameter = b.slot(0, {4});
  b.write("aten::add_.Tensor", step, {testing::arg_int(1)});
  b.write("aten::copy_", other, {arg(step)});
  read_number(b, other);
  // As fused optimizers do: counters among the operands of the device's kernel.
  b.write("aten::mul_.Tensor", parameter, {arg(step)});
  const lanes::Graph graph = b.finish();
  const Placement placement = placed(graph);
  EXPECT_THAT(placement.host_slots(), IsEmpty());
  EXPECT_FALSE(places_a_node(placement, graph));
}

TEST(Placement, WhatNobodyReadsIsTheDevices) {
  // Batch norm's counter: plain arithmetic over a single number, but no wait to be saved.
  GraphBuilder b("batch norm");
  b.write("aten::add_.Tensor", b.slot(0, {}, lanes::DType::int64), {testing::arg_int(1)});
  EXPECT_TRUE(is_all_on_device(b.finish()));
}

TEST(Placement, AnOperatorThatTheCpuRoundsOtherwiseIsTheDevices) {
  GraphBuilder b("power");
  const auto step = b.slot(0, {});
  const auto power = b.compute("aten::pow.Tensor_Scalar", {arg(step), arg_real(0.5)}, {});
  read_number(b, power);
  EXPECT_TRUE(is_all_on_device(b.finish()));
}

// Checkpointing reads the generator's state and puts it back; seeding puts a constant there.
TEST(Placement, StatesOfTheGeneratorStayOnTheCpu) {
  GraphBuilder b("checkpointed");
  const auto seeded = b.slot(0, {5056}, lanes::DType::uint8);
  const auto restore = [&](ValueIndex state) {
    b.graph().nodes.push_back({"laneway::restore_random_state", {arg(state)}, {}, {}, "train.py"});
  };
  restore(seeded);
  const auto state = b.compute("laneway::random_state", {}, {5056}, lanes::DType::uint8);
  b.write("aten::mul_.Scalar", b.slot(1, {4}), {arg_real(2)});
  restore(state);
  const lanes::Graph graph = b.finish();
  const Placement placement = placed(graph);
  EXPECT_THAT(placement.host_slots(), ElementsAre(0U));
  EXPECT_TRUE(placement.value_on_host(graph, state));
  EXPECT_TRUE(placement.node_on_host(0));
  EXPECT_TRUE(placement.node_on_host(1));
  EXPECT_FALSE(placement.node_on_host(2));
  EXPECT_FALSE(placement.writes_host_slots());
}

TEST(Placement, ALargeTensorIsNoStateOfAGenerator) {
  GraphBuilder b("large");
  const auto large = b.slot(0, {1 << 20}, lanes::DType::uint8);
  b.graph().nodes.push_back({"laneway::restore_random_state", {arg(large)}, {}, {}, "train.py"});
  EXPECT_TRUE(is_all_on_device(b.finish()));
}

// Its float64 is no tensor that the device's operators take, but a number that they do.
TEST(Placement, TheLearningRateOfAFusedOptimizerStaysOnTheCpu) {
  GraphBuilder b("fused");
  const auto rate = b.input({}, lanes::DType::float64);
  const auto parameter = b.slot(0, {4});
  const auto step = b.slot(1, {});
  const auto fused = [&](ValueIndex lr) {
    b.write("aten::_fused_adam_.tensor_lr", parameter,
            {arg(step), keyword("lr", {lanes::ValueArgument{lr}})});
  };
  fused(rate);
  const lanes::Graph graph = b.finish();
  const Placement placement = placed(graph);
  EXPECT_TRUE(placement.value_on_host(graph, rate));
  EXPECT_FALSE(placement.value_on_host(graph, parameter));
  EXPECT_FALSE(placement.value_on_host(graph, step));
  EXPECT_FALSE(places_a_node(placement, graph));
  const auto before = lanes::predict_memory(graph, lanes::graph_lifetimes(graph), 512);
  const auto memory = with_transfers(before, graph, placement, 512);
  EXPECT_EQ(memory.tape.allocations.size(), before.tape.allocations.size()) << "it is not sent";
}

TEST(Placement, ALearningRateThatTheDeviceComputesWithIsTheDevices) {
  GraphBuilder b("both");
  const auto rate = b.input({});
  const auto parameter = b.slot(0, {4});
  b.write("aten::_fused_sgd_.tensor_lr", parameter, {keyword("lr", {lanes::ValueArgument{rate}})});
  b.write("aten::mul_.Tensor", parameter, {arg(rate)});
  const lanes::Graph graph = b.finish();
  EXPECT_FALSE(placed(graph).value_on_host(graph, rate));
}

TEST(Placement, InputsThatAreReadAsNumbersStayOnTheCpu) {
  GraphBuilder b("number");
  const auto factor = b.input({});
  const auto shared = b.input({});
  const auto parameter = b.slot(0, {4});
  b.write("aten::mul_.Scalar", parameter, {arg(read_number(b, factor))});
  b.write("aten::mul_.Tensor", parameter, {arg(shared)});
  read_number(b, shared);
  const lanes::Graph graph = b.finish();
  const Placement placement = placed(graph);
  EXPECT_TRUE(placement.value_on_host(graph, factor));
  EXPECT_FALSE(placement.value_on_host(graph, shared));
}

TEST(Placement, InputsAndWholeTensorsAreTheDevices) {
  GraphBuilder b("input");
  const auto input = b.input({2});
  const auto vector = b.slot(0, {2});
  const auto element = b.view(vector, {1});
  read_number(b, element);
  const lanes::Graph graph = b.finish();
  const Placement placement = placed(graph);
  EXPECT_FALSE(placement.value_on_host(graph, input));
  EXPECT_FALSE(placement.value_on_host(graph, element)) << "a piece of something larger";
}

TEST(Placement, ASlotThatTheJobKeepsOnTheDeviceStaysThere) {
  Adam adam;
  const lanes::Graph graph = adam.finish();
  const Placement placement = Placement::of(graph, [](uint32_t) { return false; });
  EXPECT_FALSE(places_a_node(placement, graph));
}

TEST(StableStorages, AreWhatConstantsMakeAndSlotsThatStay) {
  GraphBuilder b("stable", lanes::GraphKind::inference);
  const auto input = b.input({3});
  const auto table = b.slot(0, {3});
  const auto counted = b.compute("aten::arange", {testing::arg_int(3)}, {3});
  const auto shifted = b.compute("aten::add.Tensor", {arg(counted), arg(table)}, {3});
  const auto mixed = b.compute("aten::add.Tensor", {arg(shifted), arg(input)}, {3});
  const auto drawn = b.compute("aten::rand", {}, {3});
  const auto unset = b.compute("aten::empty.memory_format", {}, {3});
  const auto written = b.compute("aten::zeros", {}, {3});
  b.write("aten::copy_", written, {arg(mixed)});
  const lanes::Graph graph = b.finish();
  std::vector<bool> draws(graph.nodes.size(), false);
  draws[3] = true;
  const std::vector<bool> stable = stable_storages(graph, draws);
  const auto is_stable = [&](ValueIndex value) { return stable[graph.values[value].storage]; };
  EXPECT_TRUE(is_stable(table));
  EXPECT_TRUE(is_stable(counted));
  EXPECT_TRUE(is_stable(shifted));
  for (const ValueIndex other : {input, mixed, drawn, unset, written}) {
    EXPECT_FALSE(is_stable(other)) << "value " << other;
  }
}

TEST(StableStorages, ASlotThatIsWrittenIsNotOne) {
  GraphBuilder b("counter");
  const auto slot = b.slot(0, {3});
  const auto before = b.compute("aten::add.Tensor", {arg(slot), testing::arg_int(1)}, {3});
  b.write("aten::add_.Tensor", slot, {testing::arg_int(1)});
  const lanes::Graph graph = b.finish();
  const auto stable = stable_storages(graph, {false, false});
  EXPECT_FALSE(stable[graph.values[slot].storage]);
  EXPECT_FALSE(stable[graph.values[before].storage]) << "although it is read before the write";
}

TEST(Placement, HasNothingToPlaceWhereTheCpuReachesTheDevicesMemory) {
  GraphBuilder b("adam");
  const auto step = b.slot(0, {});
  b.write("aten::add_.Tensor", step, {testing::arg_int(1)});
  read_number(b, step);
  const lanes::Graph graph = b.finish();
  ASSERT_TRUE(places_a_node(placed(graph), graph));
  const Placement placement = Placement::in_place();
  EXPECT_TRUE(placement.is_in_place());
  EXPECT_TRUE(placement.value_on_host(graph, step));
  EXPECT_FALSE(places_a_node(placement, graph));
  EXPECT_THAT(placement.host_slots(), IsEmpty());
  const auto before = lanes::predict_memory(graph, lanes::graph_lifetimes(graph), 512);
  const auto memory = with_transfers(before, graph, placement, 512);
  EXPECT_EQ(memory.peak, before.peak);
  EXPECT_EQ(memory.tape.allocations.size(), before.tape.allocations.size());
}

TEST(DeviceMemory, HoldsInputsFromTheFirstNodeToTheEnd) {
  GraphBuilder b("inputs", lanes::GraphKind::inference);
  const auto input = b.input({100});
  const auto doubled = b.compute("aten::add.Tensor", {arg(input), arg(input)}, {100});
  b.output(b.compute("aten::relu", {arg(doubled)}, {100}));
  const lanes::Graph graph = b.finish();
  const auto before = lanes::predict_memory(graph, lanes::graph_lifetimes(graph), 512);
  const auto memory = with_transfers(before, graph, placed(graph), 512);
  EXPECT_EQ(memory.peak, before.peak + Bytes(512));
  EXPECT_TRUE(memory.tape.well_formed());
  EXPECT_EQ(memory.tape.allocations.size(), before.tape.allocations.size() + 1);
  EXPECT_EQ(memory.tape.frees.size(), memory.tape.allocations.size());
  EXPECT_EQ(memory.tape.live_bound(512), memory.peak);
}

TEST(DeviceMemory, MakesRoomForOutputsThatAreNotDense) {
  GraphBuilder b("turned", lanes::GraphKind::inference);
  const auto result = b.compute("aten::relu", {arg(b.input({8, 16}))}, {8, 16});
  b.output(result);
  lanes::Graph graph = b.finish();
  const auto dense = with_transfers(
      lanes::predict_memory(graph, lanes::graph_lifetimes(graph), 512), graph, placed(graph), 512);
  graph.values[result].strides = {1, 8};
  const auto turned = with_transfers(
      lanes::predict_memory(graph, lanes::graph_lifetimes(graph), 512), graph, placed(graph), 512);
  EXPECT_EQ(turned.peak, dense.peak + Bytes(512));
  EXPECT_TRUE(turned.tape.well_formed());
  EXPECT_EQ(turned.tape.live_bound(512), turned.peak);
}

}  // namespace
}  // namespace laneway::adaptor
