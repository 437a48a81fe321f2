#include "tests/service/tiny_graphs.h"

#include "tests/support/graph_builder.h"

namespace laneway::testing {

lanes::Graph adding_graph(int64_t count) {
  GraphBuilder b("adding");
  const auto input = b.input({count});
  const auto state = b.slot(0, {count});
  const auto twice = b.compute("aten::mul.Scalar", {arg(input), arg_real(2)}, {count});
  const auto again = b.compute("aten::clone", {arg(twice)}, {count});
  b.write("aten::add_.Tensor", state, {arg(again)});
  b.output(b.compute("aten::clone", {arg(state)}, {count}));
  return b.finish();
}

lanes::Graph reading_graph(int64_t count) {
  GraphBuilder b("reading", lanes::GraphKind::inference);
  const auto input = b.input({count});
  const auto state = b.slot(0, {count});
  b.output(b.compute("aten::add.Tensor", {arg(state), arg(input)}, {count}));
  return b.finish();
}

lanes::Graph doubling_graph(int64_t count) {
  GraphBuilder b("doubling", lanes::GraphKind::inference);
  const auto input = b.input({count});
  b.output(b.compute("aten::mul.Scalar", {arg(input), arg_real(2)}, {count}));
  return b.finish();
}

std::vector<lanes::ImageSlot> adding_slots(int64_t count) {
  return {{"model/state", lanes::SlotKind::parameter, static_cast<uint64_t>(count) * 4}};
}

}  // namespace laneway::testing
