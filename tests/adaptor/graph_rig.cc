#include "tests/adaptor/graph_rig.h"

#include <cstring>
#include <optional>
#include <utility>

#include "adaptor/scope/lane_scope.h"
#include "base/check.h"
#include "base/limits.h"
#include "lanes/graph/graph_check.h"
#include "lanes/graph/graph_sizes.h"
#include "tests/support/graph_builder.h"

namespace laneway::testing {
namespace {

class AlwaysGo final : public lanes::ExecutorHooks {
 public:
  void pause(size_t) override {}
  lanes::CommitDecision enter_commit_phase(size_t) override { return lanes::CommitDecision::go; }
};

constexpr int64_t kRows = 8;
constexpr int64_t kIn = 4;
constexpr int64_t kOut = 3;

}  // namespace

AlignedBytes::AlignedBytes(size_t size) : storage_(size + limits::kHostAlignment), size_(size) {
  const auto address = reinterpret_cast<uintptr_t>(storage_.data());
  const auto alignment = static_cast<uintptr_t>(limits::kHostAlignment);
  data_ = storage_.data() + ((address + alignment - 1) / alignment * alignment - address);
}

GraphRig::GraphRig(const lanes::Graph& graph, std::span<const lanes::ImageSlot> slots, bool poison)
    : GraphRig(graph, slots, poison, nullptr) {}

GraphRig::GraphRig(const GraphRig& equal, std::span<const lanes::ImageSlot> slots)
    : GraphRig(equal.program().graph, slots, /*poison=*/false, equal.program().resolved) {}

GraphRig::GraphRig(const lanes::Graph& graph, std::span<const lanes::ImageSlot> slots, bool poison,
                   const std::shared_ptr<const adaptor::ResolvedGraph>& resolved)
    : layout_(slots, lanes::first_use_order(graph, static_cast<uint32_t>(slots.size())),
              limits::kHostAlignment),
      storage_(static_cast<uint64_t>(layout_.total().count())),
      image_(std::make_unique<AlignedBytes>(static_cast<size_t>(layout_.total().count()))),
      arena_(limits::kHostAlignment,
             poison ? std::optional(memory::LaneArena::kPoison) : std::nullopt) {
  const Status valid = lanes::check_graph(graph);
  LW_CHECK(valid.ok(), valid.ok() ? "" : valid.error().message);
  const adaptor::JobParts parts{.device = device_,
                                .layout = layout_,
                                .image = storage_,
                                .random = random_,
                                .mirror = mirror_};
  auto loaded = resolved != nullptr
                    ? adaptor::TorchGraphRunner::bind(resolved, parts)
                    : adaptor::TorchGraphRunner::load(graph, adaptor::Placement::in_place(), parts);
  runner_ = std::move(loaded).value();
  auto* numbers = reinterpret_cast<float*>(image_->data());
  for (size_t i = 0; i < image_->size() / sizeof(float); ++i) {
    numbers[i] = static_cast<float>(i % 7) * 0.25F - 0.5F;
  }
  storage_.rebind(image_->data());
  resize_lane(mib(1));
}

void GraphRig::move_image() {
  auto moved = std::make_unique<AlignedBytes>(image_->size());
  std::memcpy(moved->data(), image_->data(), image_->size());
  storage_.rebind(moved->data());
  std::memset(image_->data(), 0xEE, image_->size());
  image_ = std::move(moved);
}

void GraphRig::resize_lane(Bytes size) {
  lane_ = std::make_unique<AlignedBytes>(static_cast<size_t>(size.count()));
  arena_.bind(lane_->data(), size);
}

lanes::IterationReport GraphRig::run(std::span<const lanes::InputView> inputs,
                                     std::span<const lanes::OutputView> outputs) {
  const adaptor::LaneScope scope(device_lane_, arena_, runner_->program().graph.context);
  AlwaysGo hooks;
  lanes::ControlWord word;
  arena_.begin_probe();
  lanes::IterationReport report = lanes::Executor(*runner_, word, hooks).run(inputs, outputs);
  use_ = report.outcome == lanes::IterationOutcome::completed ? arena_.end() : arena_.abandon();
  return report;
}

void GraphRig::abandon_at(size_t node, std::span<const lanes::InputView> inputs) {
  const adaptor::LaneScope scope(device_lane_, arena_, runner_->program().graph.context);
  arena_.begin_probe();
  const Status begun = runner_->begin(inputs);
  LW_CHECK(begun.ok(), "the inputs are right");
  for (size_t i = 0; i < node; ++i) {
    LW_CHECK(runner_->run_node(i) == lanes::NodeOutcome::done, "the node runs");
  }
  runner_->abandon();
  use_ = arena_.abandon();
}

lanes::Graph noisy_step() {
  GraphBuilder b("noisy");
  const auto x = b.input({kRows, kIn});
  const auto x_turned = b.input({kIn, kRows});
  const auto weight = b.slot(0, {kIn, kOut});
  const auto velocity = b.slot(1, {kIn, kOut});
  const auto product = b.compute("aten::mm", {arg(x), arg(weight)}, {kRows, kOut});
  const auto mask = b.compute("aten::empty_like", {arg(product)}, {kRows, kOut});
  b.write("aten::bernoulli_.float", mask,
          {arg_real(0.5), keyword("generator", {lanes::GeneratorArgument{}})});
  const auto active = b.compute("aten::relu", {arg(product)}, {kRows, kOut});
  const auto dropped = b.compute("aten::mul.Tensor", {arg(active), arg(mask)}, {kRows, kOut});
  const auto loss = b.compute("aten::sum", {arg(dropped)}, {});
  const auto gradient = b.compute("aten::mm", {arg(x_turned), arg(dropped)}, {kIn, kOut});
  b.write("aten::add_.Tensor", velocity, {arg(gradient)});
  const auto step = b.compute("aten::mul.Scalar", {arg(velocity), arg_real(-0.125)}, {kIn, kOut});
  b.write("aten::add_.Tensor", weight, {arg(step)});
  b.output(loss);
  b.output(dropped);
  return b.finish();
}

std::vector<lanes::ImageSlot> noisy_slots() {
  const uint64_t bytes = kIn * kOut * sizeof(float);
  return {{"model/weight", lanes::SlotKind::parameter, bytes},
          {"optimizer/velocity", lanes::SlotKind::optimizer_state, bytes}};
}

NoisyBatch::NoisyBatch(int number)
    : x_(kRows * kIn), x_turned_(kRows * kIn), dropped_(kRows * kOut) {
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t column = 0; column < kIn; ++column) {
      const auto value = static_cast<float>((row * 5 + column * 3 + number) % 11) * 0.125F - 0.5F;
      x_[row * kIn + column] = value;
      x_turned_[column * kRows + row] = value;
    }
  }
  inputs_ = {{.data = x_.data(), .bytes = x_.size() * sizeof(float)},
             {.data = x_turned_.data(), .bytes = x_turned_.size() * sizeof(float)}};
  outputs_ = {{.data = &loss_, .bytes = sizeof(loss_)},
              {.data = dropped_.data(), .bytes = dropped_.size() * sizeof(float)}};
}

}  // namespace laneway::testing
