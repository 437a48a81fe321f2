// Shows that results are what the graph declares in every iteration in which they may be something
// else, that nobody hands out memory of the job under another name, and which forms of listed
// operators are not taken.
#include "adaptor/checks/result_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adaptor/host/host_random_state.h"
#include "adaptor/host/host_torch_device.h"
#include "adaptor/operators/torch_tensors.h"
#include "adaptor/run/torch_graph_runner.h"
#include "base/limits.h"
#include "memory/host_pool_access.h"
#include "tests/adaptor/graph_rig.h"
#include "tests/support/graph_builder.h"

namespace laneway::adaptor {
namespace {

using lanes::DType;
using lanes::IterationOutcome;
using lanes::ValueIndex;
using ::testing::AllOf;
using testing::arg;
using testing::arg_int;
using testing::arg_list;
using testing::arg_real;
using testing::GraphBuilder;
using testing::GraphRig;
using ::testing::HasSubstr;
using testing::keyword;

lanes::NamedArgument ints(std::vector<int64_t> numbers) {
  std::vector<lanes::Argument> elements;
  for (const int64_t number : numbers) elements.push_back({number});
  return arg_list(std::move(elements));
}

std::vector<lanes::ImageSlot> slots() {
  return {{"first", lanes::SlotKind::parameter, 16}, {"second", lanes::SlotKind::parameter, 16}};
}

std::string refusal(const lanes::Graph& graph) {
  const pipeline::ImageLayout layout(slots(), {}, limits::kHostAlignment);
  const BorrowedStorage image(static_cast<uint64_t>(layout.total().count()));
  HostRandomState random;
  const HostTorchDevice device;
  memory::HostPoolAccess access;
  StateMirror mirror(layout, {}, access);
  const auto loaded = TorchGraphRunner::load(
      graph, Placement::in_place(),
      {.device = device, .layout = layout, .image = image, .random = random, .mirror = mirror});
  return loaded ? "" : loaded.error().message;
}

// Sums what a mask selects of four, two of which the graph declares; `commit`: behind a write.
lanes::Graph masked(bool commit) {
  GraphBuilder b("masked");
  const auto mask = b.input({4}, DType::boolean);
  const auto x = b.slot(0, {4});
  if (commit) b.write("aten::add_.Scalar", b.slot(1, {4}), {arg_real(1)});
  const auto some =
      b.compute("aten::index.Tensor", {arg(x), arg_list({{lanes::ValueArgument{mask}}})}, {2});
  b.output(some);
  if (!commit) b.write("aten::add_.Scalar", x, {arg_real(1)});
  return b.finish();
}

TEST(ResultCheck, MasksAreCountedInEveryIteration) {
  GraphRig rig(masked(false), slots());
  std::vector<float> room(3, -1.0F);
  const lanes::OutputView output{.data = room.data(), .bytes = 8};
  const auto run = [&](std::vector<uint8_t> mask) {
    const lanes::InputView input{.data = mask.data(), .bytes = mask.size()};
    return rig.run({&input, 1}, {&output, 1});
  };
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(run({1, 0, 0, 1}).outcome, IterationOutcome::completed);
    const auto before = rig.image();
    for (const std::vector<uint8_t>& wrong :
         {std::vector<uint8_t>{1, 1, 1, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 1, 0}}) {
      const auto report = run(wrong);
      EXPECT_EQ(report.outcome, IterationOutcome::failed_clean);
      EXPECT_THAT(report.error.message,
                  AllOf(HasSubstr("aten::index.Tensor"), HasSubstr("the graph declares float32[2]"),
                        HasSubstr("from train.py:1")));
    }
    EXPECT_EQ(rig.image(), before);
  }
  EXPECT_EQ(room[2], -1.0F);
}

TEST(ResultCheck, MasksBehindTheFirstWriteAreRefused) {
  EXPECT_EQ(refusal(masked(false)), "");
  EXPECT_THAT(refusal(masked(true)),
              AllOf(HasSubstr("aten::index.Tensor"), HasSubstr("masks of a fixed shape")));
}

TEST(ResultCheck, SizesThatAreNumbersOfTheIterationAreComparedToo) {
  GraphBuilder b("sized", lanes::GraphKind::inference);
  const auto count = b.number_input(lanes::ValueKind::integer);
  b.output(b.compute("aten::zeros", {arg_list({{lanes::ValueArgument{count}}})}, {2}));
  GraphRig rig(b.finish(), slots());
  float room[2] = {};
  const lanes::OutputView output{.data = room, .bytes = sizeof(room)};
  for (const int64_t size : {2, 3, 100, 0, 2}) {
    const lanes::InputView input{.integer = size};
    EXPECT_EQ(rig.run({&input, 1}, {&output, 1}).outcome,
              size == 2 ? IterationOutcome::completed : IterationOutcome::failed_clean);
  }
}

TEST(ResultCheck, AnOutputOfAnotherSizeIsNotCopied) {
  float room[4] = {7, 7, 7, 7};
  const at::Tensor three = contiguous_view(room, {3}, c10::ScalarType::Float);
  float target[4] = {};
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{8}, uint64_t{16}}) {
    EXPECT_FALSE(copy_out(c10::IValue(three), {.data = target, .bytes = bytes}).ok());
  }
  EXPECT_FALSE(copy_out(c10::IValue(at::Tensor()), {.data = target, .bytes = 8}).ok());
  EXPECT_FALSE(copy_out(c10::IValue(1.5), {.data = target, .bytes = 4}).ok());
  EXPECT_EQ(target[0], 0.0F);
  EXPECT_TRUE(copy_out(c10::IValue(three), {.data = target, .bytes = 12}).ok());
  EXPECT_EQ(target[2], 7.0F);
  EXPECT_EQ(target[3], 0.0F);
}

// A strided view of the second slot, with the geometry that the operator is given and another that
// the graph declares.
lanes::Graph strided(const char* op, std::vector<int64_t> strides, int64_t offset,
                     std::vector<int64_t> declared_strides, int64_t declared_offset) {
  GraphBuilder b("strided", lanes::GraphKind::inference);
  b.slot(0, {4});
  const auto base = b.slot(1, {4});
  const auto view = b.view(base, {2, 1});
  b.graph().values[view].strides = std::move(declared_strides);
  b.graph().values[view].storage_offset = declared_offset;
  b.last().op = op;
  b.last().arguments = {arg(base), ints({2, 1}), ints(std::move(strides))};
  if (offset >= 0) b.last().arguments.push_back(arg_int(offset));
  b.output(view);
  return b.finish();
}

TEST(ResultCheck, StridedViewsCountFromTheirOwnSlot) {
  GraphRig rig(strided("aten::as_strided", {2, 1}, 1, {2, 1}, 1), slots());
  auto* second = reinterpret_cast<float*>(rig.slot(1));
  for (int i = 0; i < 4; ++i) second[i] = static_cast<float>(10 + i);
  float room[2] = {};
  const lanes::OutputView output{.data = room, .bytes = sizeof(room)};
  ASSERT_EQ(rig.run({}, {&output, 1}).outcome, IterationOutcome::completed);
  EXPECT_EQ(room[0], 11.0F);
  EXPECT_EQ(room[1], 13.0F);
}

TEST(ResultCheck, ViewsThatAreNotWhatTheGraphDeclaresAreRefused) {
  const char* alias = "aten::_reshape_alias";
  EXPECT_EQ(refusal(strided(alias, {2, 1}, -1, {2, 1}, 0)), "");
  EXPECT_THAT(refusal(strided(alias, {3, 1}, -1, {2, 1}, 0)),
              HasSubstr("the graph declares strides"));
  EXPECT_THAT(refusal(strided(alias, {1 << 20, 1}, -1, {2, 1}, 0)), HasSubstr("reaches beyond"));
  EXPECT_THAT(refusal(strided(alias, {int64_t{1} << 62, 1}, -1, {2, 1}, 0)),
              HasSubstr("reaches beyond"));
  EXPECT_THAT(refusal(strided("aten::as_strided", {2, 1}, 0, {2, 1}, 1)),
              HasSubstr("the graph declares strides"));
  EXPECT_THAT(refusal(strided("aten::as_strided", {1 << 20, 1}, 0, {2, 1}, 0)),
              HasSubstr("out of bounds"));
}

// Doubles a transposed slot, which keeps the layout; the graph declares another one. `commit`:
// behind a write; `addressed`: what is doubled is looked at by strides.
lanes::Graph transposed(bool declared_right, bool commit, bool addressed) {
  GraphBuilder b("transposed");
  const auto square = b.slot(0, {2, 2});
  b.graph().values[square].strides = {1, 2};
  if (commit) b.write("aten::add_.Scalar", b.slot(1, {4}), {arg_real(1)});
  const auto doubled = b.compute("aten::mul.Scalar", {arg(square), arg_real(2)}, {2, 2});
  if (declared_right) b.graph().values[doubled].strides = {1, 2};
  if (addressed) {
    const auto flat = b.view(doubled, {4});
    b.last().op = "aten::as_strided";
    b.last().arguments = {arg(doubled), ints({4}), ints({1}), arg_int(0)};
    b.output(flat);
  } else {
    b.output(doubled);
  }
  if (!commit) b.write("aten::add_.Scalar", b.slot(1, {4}), {arg_real(1)});
  return b.finish();
}

lanes::IterationReport run_once(const lanes::Graph& graph) {
  GraphRig rig(graph, slots());
  float room[4] = {};
  const lanes::OutputView output{.data = room, .bytes = sizeof(room)};
  return rig.run({}, {&output, 1});
}

TEST(ResultCheck, AResultThatLiesOtherwiseThanDeclaredIsTakenBack) {
  for (const bool addressed : {false, true}) {
    EXPECT_EQ(run_once(transposed(true, false, addressed)).outcome, IterationOutcome::completed);
    const lanes::IterationReport report = run_once(transposed(false, false, addressed));
    EXPECT_EQ(report.outcome, IterationOutcome::failed_clean);
    EXPECT_EQ(report.error.code, ErrorCode::other_layout);
    EXPECT_THAT(report.error.message,
                AllOf(HasSubstr("node 0 (aten::mul.Scalar): gave a tensor with strides [1, 2]"),
                      HasSubstr("the graph declares strides [2, 1]")));
  }
}

// There a capture cannot be mended any more: what nobody counts upon is let be, the rest is
// refused.
TEST(ResultCheck, BehindTheFirstWriteALayoutMattersToWhatAddressesIt) {
  EXPECT_EQ(run_once(transposed(false, true, false)).outcome, IterationOutcome::completed);
  EXPECT_EQ(run_once(transposed(true, true, true)).outcome, IterationOutcome::completed);
  EXPECT_EQ(run_once(transposed(false, true, true)).outcome, IterationOutcome::failed_in_commit);
}

// Else a write to it would be a write to the image that nobody knows of.
TEST(ResultCheck, AViewIsDeclaredOnTheStorageOfWhatItIsAViewOf) {
  GraphBuilder b("hidden");
  const auto view = b.compute("aten::alias", {arg(b.slot(0, {4}))}, {4});
  b.write("aten::add_.Scalar", view, {arg_real(1)});
  EXPECT_THAT(refusal(b.finish()),
              AllOf(HasSubstr("aten::alias"), HasSubstr("which is not the argument's")));
  // _unsafe_view does not say that it is a view.
  GraphBuilder c("hidden");
  const auto silent = c.compute("aten::_unsafe_view", {arg(c.slot(0, {4})), ints({2, 2})}, {2, 2});
  c.write("aten::add_.Scalar", silent, {arg_real(1)});
  GraphRig rig(c.finish(), slots());
  const auto before = rig.image();
  const auto report = rig.run({}, {});
  EXPECT_EQ(report.outcome, IterationOutcome::failed_clean);
  EXPECT_THAT(report.error.message, HasSubstr("gave the memory of an argument"));
  EXPECT_EQ(rig.image(), before);
}

TEST(ResultCheck, ListedOperatorsAreNotTakenInOtherForms) {
  const auto empty = [](const char* name, lanes::Argument given) {
    GraphBuilder b("form", lanes::GraphKind::inference);
    b.output(
        b.compute("aten::empty.memory_format", {ints({4}), keyword(name, std::move(given))}, {4}));
    return refusal(b.finish());
  };
  EXPECT_EQ(empty("pin_memory", {false}), "");
  EXPECT_EQ(empty("layout", {lanes::LayoutArgument{}}), "");
  EXPECT_EQ(empty("dtype", {lanes::DTypeArgument{DType::float32}}), "");
  EXPECT_EQ(empty("dtype", {lanes::NoneArgument{}}), "");
  EXPECT_THAT(empty("pin_memory", {true}), HasSubstr("'pin_memory' must be False"));
  // Sparse, and quantized: torch's enumerations behind numbers.
  EXPECT_THAT(empty("layout", {int64_t{1}}), HasSubstr("a number in the place of"));
  EXPECT_THAT(empty("dtype", {int64_t{12}}), HasSubstr("a number in the place of"));
  EXPECT_THAT(empty("memory_format", {int64_t{9}}), HasSubstr("a number in the place of"));
  EXPECT_THAT(empty("device", {std::string("cuda:0")}), HasSubstr("'device' is not what"));

  GraphBuilder b("sparse", lanes::GraphKind::inference);
  const auto ids = b.input({2}, DType::int64);
  b.compute("aten::embedding",
            {arg(b.slot(0, {2, 2})), arg(ids), arg_int(-1), {"", {false}}, {"", {true}}}, {2, 2});
  EXPECT_THAT(refusal(b.finish()), HasSubstr("'sparse' must be False"));
}

}  // namespace
}  // namespace laneway::adaptor
