#include "tests/support/random_graph.h"

#include <string>

#include "tests/support/graph_builder.h"

namespace laneway::testing {

using lanes::ValueIndex;
using lanes::ValueKind;

namespace {

constexpr int64_t kSlotElements = 24;
constexpr uint32_t kSlots = 6;

// One growing graph and the values that a next node may use.
struct Growth {
  Random& random;
  GraphBuilder builder;
  std::vector<ValueIndex> tensors;
  std::vector<ValueIndex> slots;
  std::vector<ValueIndex> numbers;

  ValueIndex pick(const std::vector<ValueIndex>& from) { return from[random.below(from.size())]; }

  void entries() {
    for (uint32_t i = 0; i < kSlots; ++i) {
      if (random.chance(0.5)) slots.push_back(builder.slot(i, {kSlotElements}));
    }
    tensors = slots;
    tensors.push_back(builder.input({random.between(0, 40)}));
    numbers.push_back(builder.number_input());
    if (random.chance(0.5)) tensors.push_back(builder.input({2, random.between(1, 9)}));
  }

  void list_node() {
    std::vector<lanes::Argument> list;
    for (uint64_t i = random.below(4); i-- > 0;)
      list.push_back({lanes::ValueArgument{pick(tensors)}});
    const ValueIndex first =
        builder.compute("aten::many", {arg_list(std::move(list))}, {random.between(0, 300)});
    lanes::NodeResult result{true, {first, lanes::kNoValue}};
    // A second result of the same node, on a storage of its own.
    lanes::Graph& graph = builder.graph();
    const auto bytes = static_cast<uint64_t>(4 * random.between(1, 300));
    graph.storages.push_back({lanes::StorageKind::ephemeral, 0, bytes});
    lanes::Value value;
    value.storage = static_cast<uint32_t>(graph.storages.size() - 1);
    value.sizes = {static_cast<int64_t>(bytes / 4)};
    value.strides = {1};
    graph.values.push_back(value);
    result.values.push_back(first + 1);
    builder.last().results = {result};
    tensors.push_back(first);
    tensors.push_back(first + 1);
  }

  void node() {
    switch (random.below(6)) {
      case 0: tensors.push_back(builder.view(pick(tensors), {0, 3})); return;
      case 1:
        numbers.push_back(
            builder.number("scalar::mul", {arg(pick(numbers)), arg_real(0.5)}, ValueKind::real));
        return;
      case 2: list_node(); return;
      default:
        tensors.push_back(builder.compute("aten::add.Tensor",
                                          {arg(pick(tensors)), arg(pick(tensors))},
                                          {random.between(0, 200), random.between(1, 5)}));
    }
  }
};

}  // namespace

lanes::Graph random_graph(Random& random) {
  Growth growth{random, GraphBuilder("random"), {}, {}, {}};
  growth.entries();
  for (uint64_t i = random.below(40); i-- > 0;) growth.node();
  for (const ValueIndex slot : growth.slots) {
    if (random.chance(0.5))
      growth.builder.write("aten::add_.Tensor", slot, {arg(growth.pick(growth.tensors))});
    if (random.chance(0.3)) growth.node();
  }
  for (uint64_t i = random.below(4); i-- > 0;) growth.builder.output(growth.pick(growth.tensors));
  growth.builder.output(growth.pick(growth.numbers));
  return growth.builder.finish();
}

std::vector<lanes::ImageSlot> random_image() {
  std::vector<lanes::ImageSlot> image;
  for (uint32_t i = 0; i < kSlots; ++i) {
    image.push_back({"slot" + std::to_string(i), lanes::SlotKind::parameter, kSlotElements * 4});
  }
  return image;
}

}  // namespace laneway::testing
