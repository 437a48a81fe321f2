// Shows what the readable form of a graph looks like, kind by kind of argument, that it marks the
// commit phase, that distinct graphs differ in it, and that it survives graphs that are nonsense.
#include "tests/support/graph_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/graph_builder.h"

namespace laneway::lanes {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(GraphDump, TrainingGraphReadsLikeTheStep) {
  const std::string dump = dump_graph(testing::training_graph());
  EXPECT_THAT(dump,
              HasSubstr("graph 'training' train\n"
                        "context threads 1, mkldnn, float32 precision 011000, default float32\n"
                        "input 0 %0: float32[4, 8] @0\n"
                        "input 1 %1: float32[4, 3] @1\n"
                        "input 2 %2: real\n"
                        "slot 1 %3: float32[3, 8] @2 96 bytes\n"
                        "slot 0 %4: float32[3] @3 12 bytes\n"
                        "0: %5: float32[8, 3] @4 = aten::t_copy(%3)  # train.py:1 in step\n"));
  EXPECT_THAT(dump, HasSubstr("3: %8: float32[12] @6 = aten::view(%7, [12])"));
  EXPECT_THAT(dump, HasSubstr("8: %13: real = scalar::mul(%2, -2.0)"));
  EXPECT_THAT(dump,
              HasSubstr("--- commit phase: the image is written from here on\n"
                        "9: _ = aten::_foreach_add_.List(%3, [%11], alpha=%13)  writes %3  #"));
  EXPECT_THAT(dump, HasSubstr("output 0 %9\noutput 1 %13\n"));
}

TEST(GraphDump, EveryKindOfArgument) {
  const std::string dump = dump_graph(testing::every_kind_graph());
  EXPECT_THAT(dump, HasSubstr("(%0, -7, 0.5, flag=true, text='mean', dtype=bfloat16, "
                              "memory_format=channels_last, layout=strided, device=device, "
                              "generator=generator, nothing=none, turn=(0.5, -1.0i), "
                              "indices=[none, [%0, none]], on=%1)"));
  EXPECT_THAT(dump,
              HasSubstr("[%4: float16[2, 2] @2 strides [4, 1], %5: float16[2, 2] @2+2 strides "
                        "[4, 1], _] = aten::split.Tensor("));
  EXPECT_THAT(dump, HasSubstr("context threads 2, deterministic, deterministic_warn_only, "
                              "flush_denormal, float32 precision 100212, default float64"));
}

TEST(GraphDump, RealsReadBackAndNeverLookLikeIntegers) {
  const auto dump_of = [](double value) {
    testing::GraphBuilder b("r");
    b.compute("aten::full", {testing::arg_real(value)}, {});
    return dump_graph(b.finish());
  };
  EXPECT_THAT(dump_of(1), HasSubstr("(1.0)"));
  EXPECT_THAT(dump_of(-0.0), HasSubstr("(-0.0)"));
  EXPECT_THAT(dump_of(0.1), HasSubstr("(0.1)"));
  EXPECT_THAT(dump_of(INFINITY), HasSubstr("(inf)"));
  EXPECT_THAT(dump_of(1e300), HasSubstr("(1e+300)"));
}

TEST(GraphDump, InferenceHasNoCommitPhase) {
  EXPECT_THAT(dump_graph(testing::inference_graph()), Not(HasSubstr("commit phase")));
}

// A graph that check_graph would refuse can still be looked at.
TEST(GraphDump, NonsenseIsShownNotCrashedOn) {
  Graph graph = testing::training_graph();
  graph.values[5].storage = 99;
  graph.values[6].strides.clear();
  graph.inputs[0] = 77;
  graph.outputs[0] = kNoValue;
  graph.nodes[2].results[0].values = {500};
  graph.nodes[3].op = "a\nb";
  const std::string dump = dump_graph(graph);
  EXPECT_THAT(dump, HasSubstr("input 0 %77: value 77 of 14"));
  EXPECT_THAT(dump, HasSubstr("%500: value 500 of 14 = aten::sub.Tensor"));
  EXPECT_THAT(dump, HasSubstr("@99"));
  EXPECT_THAT(dump, HasSubstr("a?b(%7"));
}

}  // namespace
}  // namespace laneway::lanes
