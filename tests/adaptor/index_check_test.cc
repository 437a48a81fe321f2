// Shows where indices are looked at: inputs before anything has run, through views and casts, as
// far as a view of them goes and not further; computed ones just before an operator that does not
// look itself; and which graphs are not taken because nobody could look.
#include "adaptor/checks/index_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using testing::GraphBuilder;
using testing::GraphRig;
using ::testing::HasSubstr;
using testing::keyword;

lanes::NamedArgument ints(std::initializer_list<int64_t> numbers) {
  std::vector<lanes::Argument> elements;
  for (const int64_t number : numbers) elements.push_back({number});
  return arg_list(std::move(elements));
}

// Rows of a table of five, by `ids`.
ValueIndex look_up(GraphBuilder& b, ValueIndex ids) {
  std::vector<int64_t> sizes = b.graph().values[ids].sizes;
  sizes.push_back(3);
  return b.compute("aten::embedding", {arg(b.slot(0, {5, 3})), arg(ids)}, sizes);
}

std::vector<lanes::ImageSlot> table() { return {{"table", lanes::SlotKind::parameter, 60}}; }

template <class Integer>
lanes::InputView view_of(const std::vector<Integer>& numbers) {
  return {.data = numbers.data(), .bytes = numbers.size() * sizeof(Integer)};
}

template <class Integer>
lanes::IterationReport run_with(const lanes::Graph& graph, const std::vector<Integer>& numbers) {
  GraphRig rig(graph, table());
  const lanes::InputView input = view_of(numbers);
  return rig.run({&input, 1}, {});
}

std::string refusal(const lanes::Graph& graph) {
  const Result<IndexCheck> made = IndexCheck::make(graph);
  return made ? "" : made.error().message;
}

TEST(IndexCheck, NamesTheInputTheValueItsPlaceAndTheLine) {
  GraphBuilder b("tokens", lanes::GraphKind::inference);
  look_up(b, b.input({2, 3}, DType::int64));
  const auto report = run_with<int64_t>(b.finish(), {0, 1, 4, 3, 7, -2});
  EXPECT_EQ(report.outcome, IterationOutcome::failed_clean);
  EXPECT_EQ(report.error.code, ErrorCode::invalid_argument);
  EXPECT_EQ(report.error.message,
            "input 0 (int64[2, 3]) of graph 'tokens' has 7 at [1, 1], where aten::embedding takes "
            "0 to 4 (train.py:1 in step): correct the index, or give the table more rows");
}

TEST(IndexCheck, RunsNothingAndLeavesTheNextIterationAlone) {
  GraphBuilder b("step");
  const auto ids = b.input({2}, DType::int64);
  const auto mask =
      b.compute("aten::rand.generator",
                {ints({2, 3}), keyword("generator", {lanes::GeneratorArgument{}})}, {2, 3});
  const auto rows = b.compute("aten::mul.Tensor", {arg(look_up(b, ids)), arg(mask)}, {2, 3});
  const auto sum = b.compute("aten::sum", {arg(rows)}, {});
  b.write("aten::add_.Tensor", b.slot(1, {}), {arg(sum)});
  const lanes::Graph graph = b.finish();
  const std::vector<lanes::ImageSlot> slots = {{"table", lanes::SlotKind::parameter, 60},
                                               {"total", lanes::SlotKind::buffer, 4}};
  GraphRig rig(graph, slots);
  GraphRig calm(graph, slots);
  const std::vector<int64_t> right = {1, 4};
  const std::vector<int64_t> wrong = {1, 5};
  for (const auto* numbers : {&right, &wrong, &wrong, &right}) {
    const lanes::InputView input = view_of(*numbers);
    const auto report = rig.run({&input, 1}, {});
    EXPECT_EQ(report.outcome,
              numbers == &right ? IterationOutcome::completed : IterationOutcome::failed_clean);
    EXPECT_EQ(report.node, numbers == &right ? graph.nodes.size() : 0U);
    if (numbers == &right) calm.run({&input, 1}, {});
  }
  EXPECT_EQ(rig.image(), calm.image());
  EXPECT_EQ(rig.random().get(), calm.random().get());
}

// A node that gives `base` as a view with other sizes, strides and offset.
ValueIndex strided(GraphBuilder& b, ValueIndex base, std::vector<int64_t> sizes,
                   std::vector<int64_t> strides, int64_t offset) {
  const ValueIndex value = b.view(base, sizes);
  b.graph().values[value].strides = strides;
  b.graph().values[value].storage_offset = offset;
  b.last().op = "aten::as_strided";
  std::vector<lanes::Argument> size_list, stride_list;
  for (const int64_t size : sizes) size_list.push_back({size});
  for (const int64_t stride : strides) stride_list.push_back({stride});
  b.last().arguments = {arg(base), arg_list(size_list), arg_list(stride_list), arg_int(offset)};
  return value;
}

TEST(IndexCheck, LooksAtWhatAViewShowsAndNoFurther) {
  // The last two columns of three.
  const auto graph = [] {
    GraphBuilder b("tokens", lanes::GraphKind::inference);
    look_up(b, strided(b, b.input({2, 3}, DType::int64), {2, 2}, {3, 1}, 1));
    return b.finish();
  };
  const auto fine = run_with<int64_t>(graph(), {99, 1, 4, -1, 0, 3});
  EXPECT_EQ(fine.outcome, IterationOutcome::completed) << fine.error.message;
  EXPECT_THAT(run_with<int64_t>(graph(), {0, 1, 4, 0, 0, 5}).error.message,
              HasSubstr("has 5 at [1, 2]"));
}

TEST(IndexCheck, FollowsCastsAndCopies) {
  const auto build = [](DType from, bool slice_first) {
    GraphBuilder b("tokens", lanes::GraphKind::inference);
    ValueIndex ids = b.input({2, 3}, from);
    if (slice_first) ids = strided(b, ids, {2, 2}, {3, 1}, 1);
    const std::vector<int64_t> sizes = b.graph().values[ids].sizes;
    ids = b.compute("aten::_to_copy",
                    {arg(ids), keyword("dtype", {lanes::DTypeArgument{DType::int64}})}, sizes,
                    DType::int64);
    if (slice_first) {
      look_up(b, b.view(ids, {4}));
    } else {
      look_up(b, strided(b, ids, {2, 2}, {3, 1}, 1));
    }
    return b.finish();
  };
  for (const bool slice_first : {false, true}) {
    const lanes::Graph graph = build(DType::int32, slice_first);
    const auto fine = run_with<int32_t>(graph, {99, 1, 4, -1, 0, 3});
    EXPECT_EQ(fine.outcome, IterationOutcome::completed) << fine.error.message;
    EXPECT_THAT(run_with<int32_t>(graph, {0, 1, 4, 0, -7, 0}).error.message,
                AllOf(HasSubstr("input 0 (int32[2, 3])"), HasSubstr("has -7 at [1, 1]")));
    EXPECT_THAT(
        run_with<uint8_t>(build(DType::uint8, slice_first), {0, 1, 4, 0, 255, 0}).error.message,
        HasSubstr("has 255 at [1, 1]"));
  }
}

TEST(IndexCheck, DoesNotFollowWhatIsWrittenOrNarrowed) {
  // The operator's own message, with the node.
  const auto own = HasSubstr("node ");
  GraphBuilder filled("tokens", lanes::GraphKind::inference);
  const auto copy =
      filled.compute("aten::clone", {arg(filled.input({2}, DType::int64))}, {2}, DType::int64);
  filled.write("aten::fill_.Scalar", copy, {arg_int(2)});
  look_up(filled, copy);
  const auto overwritten = run_with<int64_t>(filled.finish(), {77, 78});
  EXPECT_EQ(overwritten.outcome, IterationOutcome::completed) << overwritten.error.message;

  GraphBuilder narrowed("tokens", lanes::GraphKind::inference);
  const auto low = narrowed.compute("aten::_to_copy",
                                    {arg(narrowed.input({2}, DType::int64)),
                                     keyword("dtype", {lanes::DTypeArgument{DType::int32}})},
                                    {2}, DType::int32);
  look_up(narrowed, low);
  const lanes::Graph graph = narrowed.finish();
  const auto wrapped = run_with<int64_t>(graph, {(int64_t{1} << 32) + 1, 4});
  EXPECT_EQ(wrapped.outcome, IterationOutcome::completed) << wrapped.error.message;
  EXPECT_THAT(run_with<int64_t>(graph, {0, 6}).error.message, own);
}

TEST(IndexCheck, DoesNotLookAtMasksAsIfTheyWereIndices) {
  GraphBuilder b("masked", lanes::GraphKind::inference);
  const auto mask = b.input({2}, DType::uint8);
  const auto x = b.slot(0, {2});
  b.compute("aten::index.Tensor", {arg(x), arg_list({{lanes::ValueArgument{mask}}})}, {1});
  const std::vector<uint8_t> numbers = {0, 200};
  GraphRig rig(b.finish(), {{{"table", lanes::SlotKind::parameter, 8}}});
  const lanes::InputView input = view_of(numbers);
  EXPECT_EQ(rig.run({&input, 1}, {}).outcome, IterationOutcome::completed);
}

// The backward pass of a pooling, over indices that its forward pass made, or others.
lanes::Graph pooling(bool own_indices) {
  GraphBuilder b("pool", lanes::GraphKind::inference);
  const auto x = b.input({1, 1, 2, 4});
  const auto pooled =
      b.compute("aten::max_pool2d_with_indices", {arg(x), ints({2, 2})}, {1, 1, 1, 2});
  auto indices = b.compute("aten::clone", {arg(pooled)}, {1, 1, 1, 2}, DType::int64);
  b.graph().nodes.pop_back();
  b.last().results.push_back({false, {indices}});
  if (!own_indices) {
    indices = b.compute("aten::bitwise_not", {arg(indices)}, {1, 1, 1, 2}, DType::int64);
  }
  b.compute("aten::max_pool2d_with_indices_backward",
            {arg(pooled),
             arg(x),
             ints({2, 2}),
             ints({2, 2}),
             ints({0, 0}),
             ints({1, 1}),
             {"", {false}},
             arg(indices)},
            {1, 1, 2, 4});
  return b.finish();
}

TEST(IndexCheck, TrustsWhatAnOperatorMadeItselfOnly) {
  const lanes::Graph own = pooling(true);
  EXPECT_TRUE(IndexCheck::make(own).value().checked_nodes().empty());
  const lanes::Graph others = pooling(false);
  EXPECT_EQ(IndexCheck::make(others).value().checked_nodes(), std::vector<uint32_t>{2});
  const auto report = run_with<float>(others, std::vector<float>(8, 1.0F));
  EXPECT_EQ(report.outcome, IterationOutcome::failed_clean);
  EXPECT_THAT(report.error.message,
              AllOf(HasSubstr("its 'indices' has -"), HasSubstr("it takes 0 to 7"),
                    HasSubstr("from train.py:")));
}

TEST(IndexCheck, RefusesToLookInTheCommitPhase) {
  lanes::Graph graph = pooling(false);
  graph.first_write = 1;
  EXPECT_THAT(refusal(graph), HasSubstr("commit phase"));
}

// A CTC loss over labels, and its gradient with the arguments that `spoil` leaves.
template <class Spoil>
lanes::Graph ctc(const Spoil& spoil) {
  GraphBuilder b("ctc", lanes::GraphKind::inference);
  const auto labels = b.input({1, 3}, DType::int64);
  const auto scores = b.compute("aten::zeros", {ints({6, 1, 5})}, {6, 1, 5});
  const auto loss = b.compute("aten::_ctc_loss",
                              {arg(scores), arg(labels), ints({6}), ints({2}), arg_int(0)}, {1});
  const auto alpha = b.compute("aten::clone", {arg(scores)}, {1, 6, 5});
  b.graph().nodes.pop_back();
  b.last().results.push_back({false, {alpha}});
  const auto grad = b.compute("aten::ones_like", {arg(loss)}, {1});
  b.compute("aten::_ctc_loss_backward",
            {arg(grad), arg(scores), arg(labels), ints({6}), ints({2}), arg(loss), arg(alpha),
             arg_int(0)},
            {6, 1, 5});
  spoil(b);
  return b.finish();
}

TEST(IndexCheck, LooksAtTheLabelsOfCtcButNotAtTheirPadding) {
  const lanes::Graph graph = ctc([](GraphBuilder&) {});
  const auto fine = run_with<int64_t>(graph, {1, 4, -1});
  EXPECT_EQ(fine.outcome, IterationOutcome::completed) << fine.error.message;
  for (const int64_t wrong : {int64_t{5}, int64_t{-1}, int64_t{1} << 40}) {
    const auto report = run_with<int64_t>(graph, {1, wrong, 0});
    EXPECT_EQ(report.outcome, IterationOutcome::failed_clean);
    EXPECT_THAT(report.error.message,
                HasSubstr("label " + std::to_string(wrong) + " is not in 0 to 4"));
  }
}

TEST(IndexCheck, TakesAGradientOfCtcWithItsOwnLossOnly) {
  EXPECT_EQ(refusal(ctc([](GraphBuilder&) {})), "");
  const auto with = [](size_t position, lanes::NamedArgument other) {
    return refusal(ctc([&](GraphBuilder& b) { b.last().arguments[position] = other; }));
  };
  EXPECT_THAT(with(3, ints({7})),
              HasSubstr("argument 'input_lengths' must be what aten::_ctc_loss"));
  EXPECT_THAT(with(4, ints({3})), HasSubstr("argument 'target_lengths'"));
  EXPECT_THAT(with(7, arg_int(1)), HasSubstr("argument 'blank'"));
  EXPECT_THAT(with(6, arg(1)), HasSubstr("argument 'log_alpha'"));
  EXPECT_THAT(with(0, arg(1)), HasSubstr("argument 'grad'"));
  EXPECT_THAT(refusal(ctc([](GraphBuilder& b) {
                const ValueIndex alpha =
                    std::get<lanes::ValueArgument>(b.last().arguments[6].argument.content).value;
                b.write("aten::zero_", alpha, {});
              })),
              HasSubstr("argument 'log_alpha'"));
}

}  // namespace
}  // namespace laneway::adaptor
