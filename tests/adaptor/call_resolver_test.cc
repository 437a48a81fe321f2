// Shows what the schema check refuses, one small graph a rule, and that the message names the node,
// the operator, what is wrong and the user's line.
#include "adaptor/operators/call_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adaptor/host/host_random_state.h"
#include "adaptor/host/host_torch_device.h"
#include "adaptor/operators/torch_tensors.h"
#include "adaptor/run/torch_graph_runner.h"
#include "base/limits.h"
#include "memory/host_pool_access.h"
#include "pipeline/image.h"
#include "tests/support/graph_builder.h"

namespace laneway::adaptor {
namespace {

using ::testing::AllOf;
using testing::arg;
using testing::arg_int;
using testing::arg_list;
using testing::arg_real;
using testing::GraphBuilder;
using ::testing::HasSubstr;
using testing::keyword;

// The error of loading what `build` makes of a builder, "" when it loads.
template <class Build>
std::string refusal(const Build& build) {
  GraphBuilder b("case", lanes::GraphKind::inference);
  build(b);
  const std::vector<lanes::ImageSlot> slots = testing::builder_image();
  const pipeline::ImageLayout layout(slots, {}, limits::kHostAlignment);
  const BorrowedStorage image(static_cast<uint64_t>(layout.total().count()));
  HostRandomState random;
  const HostTorchDevice device;
  memory::HostPoolAccess access;
  StateMirror mirror(layout, {}, access);
  const auto loaded = TorchGraphRunner::load(
      b.finish(), Placement::in_place(),
      {.device = device, .layout = layout, .image = image, .random = random, .mirror = mirror});
  if (loaded) return "";
  EXPECT_EQ(loaded.error().code, ErrorCode::invalid_graph);
  EXPECT_THAT(loaded.error().message, HasSubstr("from train.py:"));
  return loaded.error().message;
}

lanes::NamedArgument text(const char* what) { return {"", {std::string(what)}}; }

TEST(CallResolver, TakesWhatTheSchemaSays) {
  EXPECT_EQ(
      refusal([](GraphBuilder& b) {
        const auto x = b.input({2, 2});
        b.output(b.compute("aten::sum.dim_IntList",
                           {arg(x), arg_list({{int64_t{0}}}), keyword("keepdim", {true})}, {1, 2}));
      }),
      "");
}

TEST(CallResolver, RefusesOperatorsThatAreNotListed) {
  for (const char* name :
       {"aten::there_is_no_such_thing", "aten::set_.source_Tensor", "aten::resize_",
        "aten::from_file", "aten::rename_", "aten::native_batch_norm", "os::system", ""}) {
    EXPECT_THAT(refusal([&](GraphBuilder& b) { b.compute(name, {arg(b.input({2}))}, {2}); }),
                AllOf(HasSubstr("node 0 (" + std::string(name) + ")"),
                      HasSubstr("not on the list of operators")))
        << name;
  }
}

TEST(CallResolver, RefusesMissingAndSurplusArguments) {
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                b.compute("aten::mm", {arg(b.input({2, 2}))}, {2, 2});
              }),
              HasSubstr("argument 'mat2' is missing and has no default"));
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                const auto x = b.input({2});
                b.compute("aten::relu", {arg(x), arg(x)}, {2});
              }),
              HasSubstr("has 2 arguments, the schema takes 1"));
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                b.compute("aten::relu", {arg(b.input({2})), keyword("slope", {1.0})}, {2});
              }),
              HasSubstr("has no argument named 'slope'"));
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                const auto x = b.input({2});
                b.compute("aten::relu", {arg(x), keyword("self", {lanes::ValueArgument{x}})}, {2});
              }),
              HasSubstr("argument 'self' is given twice"));
}

TEST(CallResolver, RefusesArgumentsOfAnotherType) {
  EXPECT_THAT(refusal([](GraphBuilder& b) { b.compute("aten::relu", {text("x")}, {2}); }),
              HasSubstr("argument 'self' is not what the schema has there: Tensor"));
  EXPECT_THAT(
      refusal([](GraphBuilder& b) {
        const auto x = b.input({2});
        b.compute("aten::_softmax", {arg(x), arg(x), keyword("half_to_float", {false})}, {2});
      }),
      HasSubstr("argument 'dim' is a tensor where the schema has int"));
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                b.compute("aten::_softmax",
                          {arg(b.input({2})), arg_real(0.5), keyword("half_to_float", {false})},
                          {2});
              }),
              HasSubstr("argument 'dim' is not what the schema has there: int"));
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                b.compute("aten::sum.dim_IntList", {arg(b.input({2})), arg_list({{1.5}})}, {});
              }),
              HasSubstr("argument 'dim' is not what the schema has there: int"));
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                b.compute("aten::relu", {{"", {}}}, {2});
              }),
              HasSubstr("argument 'self' is not what the schema has there: Tensor"));
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                const auto x = b.input({2});
                const auto number = b.number_input();
                b.compute("aten::cat",
                          {arg_list({{lanes::ValueArgument{x}}, {lanes::ValueArgument{number}}})},
                          {4});
              }),
              HasSubstr("argument 'tensors' has an element that is no Tensor"));
}

TEST(CallResolver, RefusesWritesThatAreNotDeclaredAndTheReverse) {
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                b.write("aten::add_.Tensor", b.slot(0, {3}), {arg_real(1)});
                b.last().writes.clear();
              }),
              HasSubstr("declares 0 written values, the operator's schema writes 1"));
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                const auto x = b.slot(0, {3});
                b.compute("aten::relu", {arg(x)}, {3});
                b.last().writes = {x};
              }),
              HasSubstr("declares 1 written values, the operator's schema writes 0"));
  // As many, but another one.
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                const auto target = b.slot(0, {3});
                const auto other = b.input({3});
                b.write("aten::add_.Tensor", target, {arg(other)});
                b.last().writes = {other};
              }),
              HasSubstr("(or others)"));
  // One of a list is left out.
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                const auto first = b.slot(0, {3});
                const auto second = b.slot(1, {3, 8});
                b.compute(
                    "aten::_foreach_add_.Scalar",
                    {arg_list({{lanes::ValueArgument{first}}, {lanes::ValueArgument{second}}}),
                     arg_real(1)},
                    {3});
                b.last().results.clear();
                b.last().writes = {first};
              }),
              HasSubstr("declares 1 written values, the operator's schema writes 2"));
}

TEST(CallResolver, RefusesResultsOfAnotherForm) {
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                b.compute("aten::relu", {arg(b.input({2}))}, {2});
                b.last().results.push_back({false, {lanes::kNoValue}});
              }),
              HasSubstr("declares 2 results, the schema returns 1"));
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                b.compute("aten::split.Tensor", {arg(b.input({4})), arg_int(2)}, {2});
              }),
              HasSubstr("result 0 does not have the schema's form"));
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                b.compute("aten::relu", {arg(b.input({2}))}, {2});
                b.last().results[0].is_list = true;
              }),
              HasSubstr("result 0 does not have the schema's form"));
}

TEST(CallResolver, RefusesDrawsWithoutAGenerator) {
  const auto attention = [](double dropout) {
    return refusal([&](GraphBuilder& b) {
      const auto q = b.input({1, 1, 4, 8});
      const auto out = b.compute("aten::_scaled_dot_product_flash_attention_for_cpu",
                                 {arg(q), arg(q), arg(q), arg_real(dropout)}, {1, 1, 4, 8});
      b.last().results.push_back({false, {lanes::kNoValue}});
      b.output(out);
    });
  };
  EXPECT_EQ(attention(0.0), "");
  EXPECT_THAT(attention(0.1), HasSubstr("draws random numbers but takes no generator"));
}

// Operators of CUDA's are resolved like all others; what their dropout would need may be undefined.
TEST(CallResolver, TakesFusedAttentionWithoutDropout) {
  const auto none = lanes::NamedArgument{"", {lanes::NoneArgument{}}};
  const auto attention = [&](double dropout, const lanes::NamedArgument& seed) {
    return refusal([&](GraphBuilder& b) {
      const std::string op = "aten::_scaled_dot_product_efficient_attention";
      const auto x = b.input({1, 2, 8, 4});
      const auto out = b.compute(
          op, {arg(x), arg(x), arg(x), none, {"", {true}}, arg_real(dropout)}, {1, 2, 8, 4});
      b.last().results.push_back({false, {b.input({1, 2, 32})}});
      b.graph().inputs.pop_back();
      const auto sums = b.last().results[1].values[0];
      b.graph().storages[b.graph().values[sums].storage] = {lanes::StorageKind::ephemeral, 0,
                                                            b.graph().storages.back().bytes};
      for (int i = 0; i < 2; ++i) b.last().results.push_back({false, {lanes::kNoValue}});
      const lanes::Argument yes{true};
      const lanes::Argument no{false};
      b.output(b.compute(op + "_backward",
                         {arg(out), arg(x), arg(x), arg(x), none, arg(out), arg(sums), seed, none,
                          arg_real(0.0), arg_list({yes, yes, yes, no})},
                         {1, 2, 8, 4}));
      for (int i = 0; i < 3; ++i) b.last().results.push_back({false, {lanes::kNoValue}});
    });
  };
  EXPECT_EQ(attention(0.0, none), "");
  EXPECT_THAT(attention(0.5, none), HasSubstr("draws random numbers"));
  EXPECT_THAT(refusal([&](GraphBuilder& b) {
                b.output(b.compute("aten::add.Tensor", {arg(b.input({2})), none}, {2}));
              }),
              HasSubstr("argument 'other'"));
}

}  // namespace
}  // namespace laneway::adaptor
