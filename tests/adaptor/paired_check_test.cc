// Shows that the backward operators of CUDA's attention and recurrent layers go with the results
// and sizes of their own forward only, and that nobody else reads what a library has sized. One
// small graph, and what each change of it is refused for; no kernel runs.
#include "adaptor/checks/paired_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "adaptor/checks/index_trace.h"
#include "adaptor/operators/operator_list.h"
#include "tests/support/graph_builder.h"

namespace laneway::adaptor {
namespace {

using lanes::DType;
using lanes::ValueIndex;
using testing::arg;
using testing::arg_int;
using testing::arg_list;
using testing::arg_real;
using testing::GraphBuilder;
using ::testing::HasSubstr;

constexpr const char* kAttention = "aten::_scaled_dot_product_efficient_attention";
constexpr const char* kRecurrent = "aten::_cudnn_rnn";

lanes::NamedArgument none() { return {"", {lanes::NoneArgument{}}}; }
lanes::NamedArgument flag(bool value) { return {"", {value}}; }

// One more result of the last node.
ValueIndex more(GraphBuilder& b, std::vector<int64_t> sizes, DType dtype = DType::float32) {
  const ValueIndex made = b.compute("aten::empty", {}, std::move(sizes), dtype);
  b.graph().nodes.pop_back();
  b.last().results.push_back({false, {made}});
  return made;
}

// What the pairing of the graph's last node is refused for; "" when it is taken.
std::string refusal(const lanes::Graph& graph) {
  const IndexTrace trace(graph);
  const Status checked = check_pairing(graph, static_cast<uint32_t>(graph.nodes.size()) - 1, trace);
  return checked ? "" : checked.error().message;
}

template <class Spoil>
std::string attention(bool with_sums, const Spoil& spoil) {
  GraphBuilder b("attention");
  const ValueIndex query = b.input({1, 2, 8, 4});
  const ValueIndex key = b.input({1, 2, 8, 4});
  const ValueIndex out = b.compute(
      kAttention, {arg(query), arg(key), arg(key), none(), flag(with_sums)}, {1, 2, 8, 4});
  const ValueIndex sums = more(b, {1, 2, 32});
  b.compute(std::string(kAttention) + "_backward",
            {arg(out), arg(query), arg(key), arg(key), none(), arg(out), arg(sums), none(), none(),
             arg_real(0.0), arg_list({{true}, {true}, {true}, {false}}), flag(false)},
            {1, 2, 8, 4});
  spoil(b);
  return refusal(b.finish());
}

std::string recurrent_layer(bool with_gradients) {
  GraphBuilder b("layer");
  const ValueIndex x = b.input({5, 2, 4});
  const ValueIndex w = b.input({12, 4});
  const ValueIndex u = b.input({12, 3});
  const ValueIndex bias = b.input({12});
  const ValueIndex h = b.input({2, 3});
  const ValueIndex out = b.compute("aten::mkldnn_rnn_layer",
                                   {arg(x), arg(w), arg(u), arg(bias), arg(bias), arg(h), arg(h),
                                    flag(false), arg_list({}), arg_int(2), arg_int(3), arg_int(1),
                                    flag(true), flag(false), flag(false), flag(with_gradients)},
                                   {5, 2, 3});
  const ValueIndex hidden = more(b, {2, 3});
  const ValueIndex cell = more(b, {2, 3});
  const ValueIndex workspace = more(b, {100}, DType::uint8);
  b.compute("aten::mkldnn_rnn_layer_backward",
            {arg(x),      arg(w),      arg(u),       arg(bias),   arg(bias),     arg(h),
             arg(h),      arg(out),    arg(hidden),  arg(cell),   none(),        none(),
             none(),      flag(false), arg_int(2),   arg_int(3),  arg_int(1),    flag(true),
             flag(false), flag(false), arg_list({}), flag(false), arg(workspace)},
            {5, 2, 4});
  return refusal(b.finish());
}

TEST(PairedCheck, ALayerWithoutGradientsHasNoWorkspaceToGoBackBy) {
  EXPECT_EQ(recurrent_layer(true), "");
  EXPECT_THAT(recurrent_layer(false), HasSubstr("argument 'workspace' must be what"));
}

TEST(PairedCheck, AttentionGoesWithItsOwnForward) {
  EXPECT_EQ(attention(true, [](GraphBuilder&) {}), "");
  const auto with = [](size_t position, lanes::NamedArgument other) {
    return attention(true, [&](GraphBuilder& b) { b.last().arguments[position] = other; });
  };
  EXPECT_THAT(with(1, arg(1)), HasSubstr("argument 'query' must be what"));
  EXPECT_THAT(with(3, arg(0)), HasSubstr("argument 'value'"));
  EXPECT_THAT(with(4, arg(0)), HasSubstr("argument 'attn_bias'"));
  EXPECT_THAT(with(5, arg(0)), HasSubstr("argument 'out'"));
  EXPECT_THAT(with(6, arg(0)), HasSubstr("argument 'logsumexp'"));
  EXPECT_THAT(attention(false, [](GraphBuilder&) {}), HasSubstr("argument 'logsumexp'"));
}

// Arguments of the forward, and of the backward, which has more in between.
constexpr size_t kWeightBuffer = 3, kTrain = 16, kReserve = 20;

template <class Spoil>
std::string recurrent(const Spoil& spoil) {
  GraphBuilder b("recurrent");
  const ValueIndex x = b.input({5, 2, 3});
  const ValueIndex state = b.input({1, 2, 4});
  const auto weights = arg_list({{lanes::ValueArgument{x}}, {lanes::ValueArgument{state}}});
  const std::vector<lanes::NamedArgument> options = {
      arg_int(3),    arg_int(4), arg_int(0),  arg_int(1),   flag(false),
      arg_real(0.0), flag(true), flag(false), arg_list({}), none()};
  std::vector<lanes::NamedArgument> forward = {arg(x), weights,    arg_int(2),
                                               none(), arg(state), none()};
  forward.insert(forward.end(), options.begin(), options.end());
  const ValueIndex output = b.compute(kRecurrent, forward, {5, 2, 4});
  more(b, {1, 2, 4});
  more(b, {0});
  const ValueIndex reserve = more(b, {0}, DType::uint8);
  const ValueIndex buffer = more(b, {0});
  std::vector<lanes::NamedArgument> backward = {arg(x),     weights, arg_int(2),  arg(buffer),
                                                arg(state), none(),  arg(output), arg(output),
                                                none(),     none()};
  backward.insert(backward.end(), options.begin(), options.end());
  backward.push_back(arg(reserve));
  backward.push_back(arg_list({{true}, {true}, {false}, {true}}));
  b.compute(std::string(kRecurrent) + "_backward", backward, {5, 2, 3});
  spoil(b, reserve);
  return refusal(b.finish());
}

TEST(PairedCheck, ARecurrentLayerGoesWithItsOwnForward) {
  EXPECT_EQ(recurrent([](GraphBuilder&, ValueIndex) {}), "");
  const auto with = [](size_t position, lanes::NamedArgument other) {
    return recurrent([&](GraphBuilder& b, ValueIndex) { b.last().arguments[position] = other; });
  };
  EXPECT_THAT(with(0, arg(1)), HasSubstr("argument 'input' must be what aten::_cudnn_rnn"));
  EXPECT_THAT(with(1, arg_list({})), HasSubstr("argument 'weight'"));
  EXPECT_THAT(with(kWeightBuffer, arg(0)), HasSubstr("argument 'weight_buf'"));
  EXPECT_THAT(with(kTrain, flag(false)), HasSubstr("argument 'train'"));
  EXPECT_THAT(with(kReserve, arg(0)), HasSubstr("argument 'reserve'"));
}

TEST(PairedCheck, NobodyElseReadsWhatALibraryHasSized) {
  const auto read = [](const lanes::NamedArgument& given) {
    return recurrent(
        [&](GraphBuilder& b, ValueIndex) { b.compute("aten::clone", {given}, {0}, DType::uint8); });
  };
  EXPECT_EQ(read(arg(0)), "");
  EXPECT_THAT(recurrent([](GraphBuilder& b, ValueIndex reserve) {
                b.compute("aten::clone", {arg(reserve)}, {0}, DType::uint8);
              }),
              HasSubstr("whose size only the library knows"));
  EXPECT_THAT(recurrent([](GraphBuilder& b, ValueIndex reserve) {
                b.compute("aten::cat", {arg_list({{lanes::ValueArgument{reserve}}})}, {0});
              }),
              HasSubstr("whose size only the library knows"));
}

TEST(PairedCheck, ARecurrentLayerMakesItsOwnBuffers) {
  GraphBuilder b("recurrent");
  const ValueIndex x = b.input({5, 2, 3});
  b.compute(kRecurrent, {arg(x), arg_list({}), arg_int(2), arg(x)}, {5, 2, 4});
  EXPECT_THAT(refusal(b.finish()), HasSubstr("argument 'weight_buf' must be None"));
}

TEST(PairedCheck, TheirPartnersAreListed) {
  for (const char* name : {kAttention, kRecurrent}) {
    EXPECT_TRUE(operator_allowed(name));
    EXPECT_TRUE(operator_allowed(std::string(name) + "_backward"));
  }
}

}  // namespace
}  // namespace laneway::adaptor
