#include "tests/adaptor/counting_step.h"

#include "tests/support/graph_builder.h"

namespace laneway::testing {
namespace {

constexpr int64_t kRows = 8;
constexpr int64_t kIn = 4;
constexpr int64_t kOut = 3;

}  // namespace

lanes::Graph counting_step(const CountingForm& form) {
  GraphBuilder b(form.name);
  const auto x = b.input({kRows, kIn});
  const auto x_turned = b.input({kIn, kRows});
  const auto rate = b.number_input();
  const auto weight = b.slot(0, {kIn, kOut});
  const auto velocity = b.slot(1, {kIn, kOut});
  const auto product = b.compute("aten::mm", {arg(x), arg(weight)}, {kRows, kOut});
  const auto mask = b.compute("aten::empty_like", {arg(product)}, {kRows, kOut});
  b.write("aten::bernoulli_.float", mask,
          {arg_real(0.5), keyword("generator", {lanes::GeneratorArgument{}})});
  const auto active = b.compute("aten::relu", {arg(product)}, {kRows, kOut});
  const auto dropped = b.compute("aten::mul.Tensor", {arg(active), arg(mask)}, {kRows, kOut});
  const auto squared = b.compute("aten::mul.Tensor", {arg(dropped), arg(dropped)}, {kRows, kOut});
  const auto loss = b.compute("aten::sum", {arg(squared)}, {});
  const auto gradient = b.compute("aten::mm", {arg(x_turned), arg(dropped)}, {kIn, kOut});
  const auto flat = b.view(gradient, {kIn * kOut});
  const auto norm = b.compute("aten::sum", {arg(flat)}, {});
  if (form.writes_early) b.write("aten::add_.Tensor", velocity, {arg(gradient)});
  auto size = rate;
  if (form.counts) {
    const auto steps = b.slot(2, {});
    b.write("aten::add_.Scalar", steps, {arg_real(1)});
    const auto count = b.number("aten::_local_scalar_dense", {arg(steps)}, lanes::ValueKind::real);
    size = b.number("scalar::mul", {arg(count), arg(rate)}, lanes::ValueKind::real);
  }
  const auto moved = b.compute("aten::mul.Scalar", {arg(flat), arg(size)}, {kIn * kOut});
  if (!form.writes_early) b.write("aten::add_.Tensor", velocity, {arg(gradient)});
  const auto step = b.compute("aten::mul.Scalar", {arg(velocity), arg(size)}, {kIn, kOut});
  b.write("aten::sub_.Tensor", weight, {arg(step)});
  for (const auto output : {loss, dropped, norm, moved}) b.output(output);
  return b.finish();
}

std::vector<lanes::ImageSlot> counting_slots(const CountingForm& form) {
  std::vector<lanes::ImageSlot> slots = noisy_slots();
  if (form.counts) {
    slots.push_back({"optimizer/steps", lanes::SlotKind::optimizer_state, sizeof(float)});
  }
  return slots;
}

CountingBatch::CountingBatch(int number, double rate) : noisy_(number) {
  inputs_.assign(noisy_.inputs().begin(), noisy_.inputs().end());
  inputs_.push_back({.real = rate});
  outputs_ = {noisy_.outputs()[0],
              noisy_.outputs()[1],
              {.data = &norm_, .bytes = sizeof(norm_)},
              {.data = moved_.data(), .bytes = sizeof(moved_)}};
}

}  // namespace laneway::testing
