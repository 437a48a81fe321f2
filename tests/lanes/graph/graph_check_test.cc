// Shows that each rule of check_graph refuses what it is there for, with a message that names the
// place, the value and the limit: every test takes a valid graph and breaks one thing. That valid
// graphs pass is shown on the hand-made and on random ones.
#include "lanes/graph/graph_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/limits.h"
#include "lanes/graph/limits.h"
#include "tests/support/graph_builder.h"
#include "tests/support/random_graph.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

using ::testing::AllOf;
using testing::arg;
using testing::arg_int;
using testing::arg_list;
using testing::arg_real;
using testing::GraphBuilder;
using ::testing::HasSubstr;
using testing::training_graph;

// Of the training graph (graph_builder.cc): values 0 x, 1 y, 2 rate, 3 weight, 4 bias, 5 flipped, 6
// guess, 7 error, 8 flat, 9 loss, 10 turned, 11 gradient, 12 bias gradient, 13 step; storages 0 x,
// 1 y, 2 weight, 3 bias, 4 flipped, 5 guess, 6 error, 7 loss; nodes 0 t_copy, 1 addmm, 2 sub, 3
// view, 4 mean, 5 t_copy, 6 mm, 7 sum, 8 scalar::mul, 9 and 10 the writes.
std::string broken(const std::function<void(Graph&)>& damage) {
  Graph graph = training_graph();
  damage(graph);
  const Status status = check_graph(graph);
  if (status.ok()) return "accepted";
  EXPECT_EQ(status.error().code, ErrorCode::invalid_graph);
  return status.error().message;
}

std::string refusal(const Graph& graph) {
  const Status status = check_graph(graph);
  return status.ok() ? "accepted" : status.error().message;
}

TEST(GraphCheck, ValidGraphsPass) {
  EXPECT_EQ(refusal(training_graph()), "accepted");
  EXPECT_EQ(refusal(testing::inference_graph()), "accepted");
  EXPECT_EQ(refusal(testing::every_kind_graph()), "accepted");
  EXPECT_EQ(refusal(Graph{}), "accepted");
  Random random(testing::seed_from_environment(21));
  for (int i = 0; i < 500; ++i) {
    const Graph graph = testing::random_graph(random);
    ASSERT_EQ(refusal(graph), "accepted");
    ASSERT_TRUE(check_against_image(graph, testing::random_image()).ok());
  }
}

TEST(GraphCheck, MessagesNameGraphNodeOperatorAndUserLine) {
  EXPECT_THAT(
      broken([](Graph& g) { g.nodes[6].arguments[1] = arg(99); }),
      HasSubstr("graph 'training', node 6 aten::mm (train.py:7 in step): argument 1 is value "
                "99, the graph has 14"));
}

TEST(GraphCheck, MessagesShowNoControlCharacters) {
  const std::string message = broken([](Graph& g) {
    g.nodes[6].source = "a\nb\x1b[2J";
    g.nodes[6].arguments[1] = arg(99);
  });
  EXPECT_THAT(message, HasSubstr("(a?b?[2J)"));
}

TEST(GraphCheck, Limits) {
  EXPECT_THAT(broken([](Graph& g) { g.inputs.resize(limits::kMaxGraphInputs + 1); }),
              HasSubstr("input count 4097 is over the limit of 4096"));
  EXPECT_THAT(broken([](Graph& g) { g.outputs.resize(limits::kMaxGraphOutputs + 1); }),
              HasSubstr("output count 65537 is over the limit of 65536"));
}

TEST(GraphCheck, Context) {
  EXPECT_THAT(broken([](Graph& g) { g.context.threads = 0; }),
              HasSubstr("thread count 0 is not in 1 to 1024"));
  EXPECT_THAT(broken([](Graph& g) { g.context.threads = 1'025; }), HasSubstr("thread count 1025"));
  EXPECT_THAT(broken([](Graph& g) { g.context.float32[0] = Float32Precision::bf16; }),
              HasSubstr("float32 precision of CUDA 2 is over the limit of 1"));
  EXPECT_THAT(broken([](Graph& g) { g.context.float32[5] = static_cast<Float32Precision>(3); }),
              HasSubstr("float32 precision of oneDNN 3 is over the limit of 2"));
  EXPECT_THAT(broken([](Graph& g) { g.context.default_dtype = DType::int64; }),
              HasSubstr("default dtype int64 is not a floating one"));
}

TEST(GraphCheck, Storages) {
  EXPECT_THAT(broken([](Graph& g) { g.storages[4].bytes = limits::kMaxTensorBytes + 1; }),
              HasSubstr("storage 4: size 70368744177665 is over the limit of 70368744177664"));
  EXPECT_THAT(broken([](Graph& g) { g.storages[2].index = limits::kMaxImageSlots; }),
              HasSubstr("storage 2: slot 1000000 is not below the limit of 1000000"));
  EXPECT_THAT(broken([](Graph& g) { g.storages[4].index = 1; }),
              HasSubstr("storage 4: index 1 of an ephemeral storage must be 0"));
}

// 2^10 storages of 2^46 bytes are the most.
TEST(GraphCheck, SumOfStorages) {
  const std::string message = broken([](Graph& g) {
    for (int i = 0; i < 1025; ++i) {
      g.storages.push_back({StorageKind::ephemeral, 0, limits::kMaxTensorBytes});
    }
  });
  EXPECT_THAT(message, HasSubstr("the sum of all storages so far"));
}

TEST(GraphCheck, StoragesAreUnique) {
  EXPECT_THAT(broken([](Graph& g) { g.storages[3].index = 1; }),
              HasSubstr("storages 2 and 3 are both slot 1"));
  EXPECT_THAT(broken([](Graph& g) { g.storages[1].index = 0; }),
              HasSubstr("storages 0 and 1 are both input 0"));
}

TEST(GraphCheck, ValueForms) {
  EXPECT_THAT(broken([](Graph& g) { g.values[2].sizes = {1}; }),
              HasSubstr("value 2 is a number and has fields of a tensor"));
  EXPECT_THAT(broken([](Graph& g) { g.values[5].storage = 99; }),
              HasSubstr("value 5: storage 99 is not in the graph, which has 11"));
  EXPECT_THAT(broken([](Graph& g) { g.values[5].strides.pop_back(); }),
              HasSubstr("value 5 has 2 sizes and 1 strides"));
  EXPECT_THAT(broken([](Graph& g) {
                g.values[5].sizes.assign(65, 1);
                g.values[5].strides.assign(65, 1);
              }),
              HasSubstr("value 5: dimension count 65 is over the limit of 64"));
  EXPECT_THAT(broken([](Graph& g) { g.values[5].sizes[1] = -1; }),
              HasSubstr("value 5: size -1 of dimension 1"));
  EXPECT_THAT(broken([](Graph& g) { g.values[5].strides[0] = -3; }),
              HasSubstr("value 5: stride -3 of dimension 0"));
  EXPECT_THAT(broken([](Graph& g) { g.values[5].storage_offset = -1; }),
              HasSubstr("value 5: offset -1"));
  EXPECT_THAT(broken([](Graph& g) {
                g.values[5].sizes = {0, INT64_MAX};
              }),
              HasSubstr("value 5: size 9223372036854775807 of dimension 1"));
}

TEST(GraphCheck, ViewsFitTheirStorage) {
  EXPECT_THAT(broken([](Graph& g) { g.values[8].storage_offset = 1; }),
              HasSubstr("value 8 float32[12] reaches to byte 52 of storage 6, which has 48 bytes"));
  EXPECT_THAT(broken([](Graph& g) { g.values[8].strides = {2}; }), HasSubstr("reaches to byte 92"));
  EXPECT_THAT(broken([](Graph& g) { g.values[8].dtype = DType::float64; }),
              HasSubstr("reaches to byte 96"));
  EXPECT_EQ(broken([](Graph& g) { g.values[8].sizes = {0}; }), "accepted");
}

TEST(GraphCheck, ViewsThatOverflowAreRefused) {
  const int64_t large = int64_t{1} << 46;
  EXPECT_THAT(broken([&](Graph& g) {
                g.values[8].sizes = {large, large, large};
                g.values[8].strides = {0, 0, 0};
              }),
              HasSubstr("has more elements than fit 70368744177664 bytes"));
  EXPECT_THAT(broken([&](Graph& g) {
                g.values[8].sizes = {1 << 20, 1 << 20};
                g.values[8].strides = {large, large};
              }),
              HasSubstr("2^64 and beyond of storage 6"));
}

TEST(GraphCheck, OperatorNames) {
  for (const char* op : {"", "mm", "aten:mm", "::mm", "aten::", "aten::mm.", "aten::mm.a.b",
                         "aten::m m", "aten::a::b", "9::mm", "aten::mm\n"}) {
    EXPECT_THAT(broken([&](Graph& g) { g.nodes[6].op = op; }), HasSubstr("is not an operator name"))
        << op;
  }
}

TEST(GraphCheck, Arguments) {
  EXPECT_THAT(broken([](Graph& g) { g.nodes[6].arguments.assign(257, arg_int(1)); }),
              HasSubstr("257 arguments are over the limit of 256"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[9].arguments.push_back(arg_int(1)); }),
              HasSubstr("argument 3 is positional and follows a named one (alpha)"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[9].arguments[1].name = "al pha"; }),
              HasSubstr("is named 'al pha', which is not an identifier"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[9].arguments.push_back(g.nodes[9].arguments.back()); }),
              HasSubstr("argument 'alpha' is given twice"));
  EXPECT_THAT(broken([](Graph& g) {
                g.nodes[9].arguments[1].argument = {ListArgument{{{ValueArgument{14}}}}};
              }),
              HasSubstr("argument 1 is value 14, the graph has 14"));
}

TEST(GraphCheck, ListsNestToTheLimit) {
  const auto nested = [](uint32_t depth) {
    return broken([&](Graph& g) {
      Argument argument{int64_t{1}};
      for (uint32_t i = 0; i < depth; ++i) argument = {ListArgument{{argument}}};
      g.nodes[6].arguments.push_back({"", argument});
    });
  };
  EXPECT_EQ(nested(limits::kMaxListDepth), "accepted");
  EXPECT_THAT(nested(limits::kMaxListDepth + 1), HasSubstr("nests lists deeper than 4, the limit"));
}

TEST(GraphCheck, Results) {
  EXPECT_THAT(broken([](Graph& g) { g.nodes[6].results[0].values = {}; }),
              HasSubstr("result 0 has 0 values and is no list"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[6].results[0].values = {14}; }),
              HasSubstr("result 0 is value 14, the graph has 14"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[8].results[0].is_list = true; }),
              HasSubstr("result 0 is a list with value 13 real"));
  EXPECT_THAT(broken([](Graph& g) {
                g.nodes[6].results.resize(257, {true, {}});
              }),
              HasSubstr("257 results are over the limit of 256"));
}

TEST(GraphCheck, Interface) {
  EXPECT_THAT(broken([](Graph& g) { g.inputs[1] = 14; }),
              HasSubstr("input 1 is value 14, the graph has 14"));
  EXPECT_THAT(broken([](Graph& g) { g.outputs[0] = kNoValue; }),
              HasSubstr("output 0 is value 4294967295, the graph has 14"));
}

TEST(GraphCheck, Inputs) {
  EXPECT_THAT(broken([](Graph& g) { std::swap(g.inputs[0], g.inputs[1]); }),
              HasSubstr("input 0, value 1 float32[4, 3], is not on the input storage of this"));
  EXPECT_THAT(broken([](Graph& g) { g.inputs[0] = 3; }),
              HasSubstr("input 0, value 3 float32[3, 8], is not on the input storage"));
  EXPECT_THAT(broken([](Graph& g) { g.storages[0].bytes = 129; }),
              HasSubstr("input 0, value 0 float32[4, 8], spans 128 bytes of a storage of 129"));
  EXPECT_THAT(broken([](Graph& g) {
                g.values[0].storage_offset = 1;
                g.storages[0].bytes = 132;
              }),
              HasSubstr("starts at element 1 of its storage"));
  EXPECT_THAT(broken([](Graph& g) {
                g.storages.push_back({StorageKind::input, 7, 4});
              }),
              HasSubstr("storage 11 is that of input 7, but no tensor input lies on it"));
}

TEST(GraphCheck, InputsMayBePermutedOrEmpty) {
  GraphBuilder b("inputs");
  const ValueIndex permuted = b.input({2, 3});
  b.graph().values[permuted].strides = {1, 2};
  b.input({3, 0});
  EXPECT_EQ(refusal(b.finish()), "accepted");
}

TEST(GraphCheck, DefinedOnce) {
  EXPECT_THAT(broken([](Graph& g) { g.nodes[6].results[0].values = {5}; }),
              HasSubstr("its result value 5 float32[8, 3] is already defined by node 0"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[6].results[0].values = {1}; }),
              HasSubstr("is already defined by an input"));
  EXPECT_THAT(broken([](Graph& g) {
                g.nodes[6].results = {{true, {11, 11}}};
              }),
              HasSubstr("is already defined by node 6"));
  EXPECT_THAT(broken([](Graph& g) { g.inputs.push_back(2); }),
              HasSubstr("input 3 is value 2 real again"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[6].results[0].values = {kNoValue}; }),
              HasSubstr("value 11 float32[3, 8] is never defined"));
}

TEST(GraphCheck, DefinedBeforeUse) {
  EXPECT_THAT(broken([](Graph& g) { std::swap(g.nodes[1], g.nodes[2]); }),
              AllOf(HasSubstr("node 1 aten::sub.Tensor"),
                    HasSubstr("reads value 6 float32[4, 3], which node 2 defines")));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[6].arguments[0] = arg(11); }),
              HasSubstr("reads value 11 float32[3, 8], which node 6 defines"));
}

// A view of a slot that a node makes is not there before it.
TEST(GraphCheck, PersistentViewsAreDefinedByTheirNode) {
  GraphBuilder b("views");
  const ValueIndex slot = b.slot(0, {4});
  const ValueIndex view = b.view(slot, {2, 2});
  b.output(view);
  Graph graph = b.finish();
  EXPECT_EQ(refusal(graph), "accepted");
  graph.nodes.insert(graph.nodes.begin(), graph.nodes[0]);
  graph.nodes[0].results[0].values = {kNoValue};
  graph.nodes[0].arguments[0] = arg(view);
  graph.first_write = 2;
  EXPECT_THAT(refusal(graph), HasSubstr("reads value 1 float32[2, 2], which node 1 defines"));
}

TEST(GraphCheck, ResultsAliasArgumentsOrAreNew) {
  EXPECT_THAT(
      broken([](Graph& g) {
        g.values[11].storage = 5;
        g.values[11].sizes = {1, 1};
      }),
      HasSubstr("its result value 11 float32[1, 1] lies on storage 5, which exists already"));
  EXPECT_THAT(broken([](Graph& g) { g.values[11].storage = 2; }),
              HasSubstr("lies on storage 2, which exists already"));
}

TEST(GraphCheck, EphemeralStoragesAreMade) {
  EXPECT_THAT(broken([](Graph& g) {
                g.storages.push_back({StorageKind::ephemeral, 0, 640});
              }),
              HasSubstr("storage 11 of 640 bytes is ephemeral and no node makes it"));
}

TEST(GraphCheck, Writes) {
  EXPECT_THAT(broken([](Graph& g) { g.nodes[9].writes = {4}; }),
              HasSubstr("writes value 4 float32[3], which is not among its arguments"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[9].writes = {kNoValue}; }),
              HasSubstr("writes no value, which is not among its arguments"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[9].writes = {13}; }),
              HasSubstr("writes value 13 real; only tensors can be written"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[9].writes.push_back(g.nodes[9].writes[0]); }),
              HasSubstr("twice; name each value once"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[1].writes = {0}; }),
              HasSubstr("writes value 0 float32[4, 8], the bytes of input 0"));
}

TEST(GraphCheck, FirstWrite) {
  EXPECT_THAT(broken([](Graph& g) { g.first_write = 10; }),
              AllOf(HasSubstr("node 9 aten::_foreach_add_.List"),
                    HasSubstr("is the first to write the image, but the graph says node 10")));
  EXPECT_THAT(broken([](Graph& g) { g.first_write = 0; }), HasSubstr("the graph says node 0"));
  EXPECT_THAT(broken([](Graph& g) {
                g.nodes[9].writes.clear();
                g.nodes[10].writes.clear();
              }),
              HasSubstr("no node writes the image; it must be the node count, 11"));
}

// The scalar node of the training graph, with other operators, arguments and results.
std::string scalar(const char* op, std::vector<NamedArgument> arguments, ValueKind result) {
  return broken([&](Graph& g) {
    g.nodes[8].op = op;
    g.nodes[8].arguments = std::move(arguments);
    g.values[13].kind = result;
  });
}

TEST(GraphCheck, Scalars) {
  EXPECT_EQ(scalar("scalar::pow", {arg_int(2), arg_int(3)}, ValueKind::integer), "accepted");
  EXPECT_EQ(scalar("scalar::pow", {arg_int(2), arg_int(3)}, ValueKind::real), "accepted");
  EXPECT_EQ(scalar("scalar::div", {arg_int(2), arg_int(3)}, ValueKind::real), "accepted");
  EXPECT_EQ(scalar("scalar::neg", {arg(2)}, ValueKind::real), "accepted");
  EXPECT_EQ(scalar("scalar::max", {arg_int(2), arg_real(3)}, ValueKind::real), "accepted");
  EXPECT_EQ(scalar("scalar::min", {arg_int(2), arg_int(3)}, ValueKind::integer), "accepted");
  EXPECT_THAT(scalar("scalar::exp", {arg(2)}, ValueKind::real),
              HasSubstr("is not a scalar operator; there are add"));
  EXPECT_THAT(scalar("scalar::sqrt", {arg(2), arg(2)}, ValueKind::real),
              HasSubstr("has 2 arguments, it takes 1"));
  EXPECT_THAT(scalar("scalar::sqrt", {arg(3)}, ValueKind::real),
              HasSubstr("argument 0 is not a number"));
  EXPECT_THAT(scalar("scalar::sqrt", {arg_list({})}, ValueKind::real),
              HasSubstr("argument 0 is not a number"));
  EXPECT_THAT(scalar("scalar::neg", {{"", {std::complex<double>(0, 1)}}}, ValueKind::real),
              HasSubstr("argument 0 is not a number"));
  EXPECT_THAT(scalar("scalar::sqrt", {{"x", {1.0}}}, ValueKind::real),
              HasSubstr("argument 0 is named 'x'"));
  EXPECT_THAT(scalar("scalar::add", {arg_int(1), arg_int(2)}, ValueKind::real),
              HasSubstr("its result is value 13 real; these arguments give an integer"));
  EXPECT_THAT(scalar("scalar::add", {arg_int(1), arg_real(2)}, ValueKind::integer),
              HasSubstr("its result is value 13 integer; these arguments give a real"));
  EXPECT_THAT(scalar("scalar::add", {arg_int(1), arg_real(2)}, ValueKind::boolean),
              HasSubstr("these arguments give a real"));
}

TEST(GraphCheck, ScalarsGiveOneNumberAndWriteNothing) {
  EXPECT_THAT(broken([](Graph& g) { g.nodes[8].writes = {2}; }), HasSubstr("only tensors"));
  EXPECT_THAT(broken([](Graph& g) {
                g.nodes[8].results.push_back({true, {}});
              }),
              HasSubstr("has 2 results or a list of them; it gives one number"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[3].op = "scalar::neg"; }),
              HasSubstr("has 2 arguments, it takes 1"));
}

TEST(GraphCheck, Image) {
  const Graph graph = training_graph();
  std::vector<ImageSlot> image = testing::builder_image();
  EXPECT_TRUE(check_against_image(graph, image).ok());
  image[1].bytes = 100;
  EXPECT_THAT(
      check_against_image(graph, image).error().message,
      HasSubstr("image slot 1 (model/weight) has 100 bytes in the image and 96 in the graph"));
  image.resize(1);
  EXPECT_THAT(check_against_image(graph, image).error().message,
              HasSubstr("image slot 1 is not in the job's image, which has 1 slots"));
}

}  // namespace
}  // namespace laneway::lanes
