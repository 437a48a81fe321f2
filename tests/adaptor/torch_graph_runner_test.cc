// Shows that the runner gives what ATen gives when it is called directly, that an iteration can be
// given up at any node (or run out of its lane at any allocation) and repeated with the same bits,
// and that nothing depends on where the image lies or on what lay in the lane. One small step with
// dropout and updates in place is run in twins: one disturbed, one not.
#include "adaptor/run/torch_graph_runner.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sum.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/adaptor/graph_rig.h"
#include "tests/support/graph_builder.h"

namespace laneway::adaptor {
namespace {

using lanes::IterationOutcome;
using testing::GraphRig;
using ::testing::HasSubstr;
using testing::NoisyBatch;

at::Tensor copied(const void* data, std::initializer_list<int64_t> sizes) {
  at::Tensor tensor = at::empty(sizes, at::kFloat);
  std::memcpy(tensor.mutable_data_ptr(), data, tensor.nbytes());
  return tensor;
}

bool same_bytes(const at::Tensor& tensor, const void* data) {
  const at::Tensor dense = tensor.contiguous();
  return std::memcmp(dense.const_data_ptr(), data, dense.nbytes()) == 0;
}

std::string problem_of(const lanes::IterationReport& report) {
  return std::string(lanes::iteration_outcome_name(report.outcome)) + ": " + report.error.message;
}

#define ASSERT_COMPLETED(report)                                                  \
  do {                                                                            \
    const lanes::IterationReport result = report;                                 \
    ASSERT_EQ(result.outcome, IterationOutcome::completed) << problem_of(result); \
  } while (false)

TEST(TorchGraphRunner, GivesWhatDirectCallsGive) {
  GraphRig rig(testing::noisy_step(), testing::noisy_slots());
  HostRandomState twin;
  at::Tensor weight = copied(rig.slot(0), {4, 3});
  at::Tensor velocity = copied(rig.slot(1), {4, 3});
  for (int iteration = 0; iteration < 5; ++iteration) {
    NoisyBatch batch(iteration);
    ASSERT_COMPLETED(rig.run(batch.inputs(), batch.outputs()));
    const at::Tensor product = at::mm(copied(batch.x().data(), {8, 4}), weight);
    const at::Tensor mask = at::empty({8, 3}, at::kFloat).bernoulli_(0.5, twin.generator());
    const at::Tensor dropped = at::mul(at::relu(product), mask);
    velocity.add_(at::mm(copied(batch.x_turned().data(), {4, 8}), dropped));
    weight.add_(at::mul(velocity, at::Scalar(-0.125)));
    EXPECT_EQ(batch.loss(), at::sum(dropped).item<float>());
    EXPECT_TRUE(same_bytes(dropped, batch.dropped().data()));
    EXPECT_TRUE(same_bytes(weight, rig.slot(0)));
    EXPECT_TRUE(same_bytes(velocity, rig.slot(1)));
    EXPECT_EQ(rig.use().live_count, 0U);
  }
  EXPECT_EQ(rig.random().get(), twin.get());
}

TEST(TorchGraphRunner, RunsInAnotherJobWhatWasResolvedForAnEqualGraph) {
  auto first = std::make_unique<GraphRig>(testing::noisy_step(), testing::noisy_slots());
  GraphRig bound(*first, testing::noisy_slots());
  GraphRig loaded(testing::noisy_step(), testing::noisy_slots());
  const std::vector<std::byte> untouched = first->image();
  EXPECT_EQ(&bound.program().graph, &first->program().graph);
  for (int iteration = 0; iteration < 5; ++iteration) {
    if (iteration == 2) first.reset();  // what is shared outlives the job that resolved it
    NoisyBatch batch(iteration);
    NoisyBatch same(iteration);
    ASSERT_COMPLETED(bound.run(batch.inputs(), batch.outputs()));
    ASSERT_COMPLETED(loaded.run(same.inputs(), same.outputs()));
    EXPECT_EQ(batch.loss(), same.loss());
    EXPECT_EQ(batch.dropped(), same.dropped());
    EXPECT_EQ(bound.image(), loaded.image());
    EXPECT_EQ(bound.random().get(), loaded.random().get());
    if (first != nullptr) {
      EXPECT_EQ(first->image(), untouched);
    }
  }
}

TEST(TorchGraphRunner, LeavesNoTraceWhenAbandonedBeforeTheCommitPhase) {
  GraphRig calm(testing::noisy_step(), testing::noisy_slots());
  GraphRig disturbed(testing::noisy_step(), testing::noisy_slots());
  const size_t first_write = disturbed.runner().first_write();
  ASSERT_GT(first_write, 5U);
  ASSERT_LT(first_write, disturbed.runner().node_count());
  for (size_t node = 0; node <= first_write; ++node) {
    NoisyBatch batch(static_cast<int>(node));
    const auto bytes = disturbed.image();
    const auto random = disturbed.random().get();
    disturbed.abandon_at(node, batch.inputs());
    EXPECT_EQ(disturbed.image(), bytes) << "abandoned at node " << node;
    EXPECT_EQ(disturbed.random().get(), random) << "abandoned at node " << node;
    EXPECT_EQ(disturbed.use().live_count, 0U) << "abandoned at node " << node;

    NoisyBatch twin(static_cast<int>(node));
    ASSERT_COMPLETED(disturbed.run(batch.inputs(), batch.outputs()));
    ASSERT_COMPLETED(calm.run(twin.inputs(), twin.outputs()));
    EXPECT_EQ(batch.loss(), twin.loss());
    EXPECT_EQ(batch.dropped(), twin.dropped());
    EXPECT_EQ(disturbed.image(), calm.image());
    EXPECT_EQ(disturbed.random().get(), calm.random().get());
  }
}

TEST(TorchGraphRunner, RunsAgainAfterAnyAllocationDidNotFit) {
  GraphRig calm(testing::noisy_step(), testing::noisy_slots());
  NoisyBatch expected(3);
  ASSERT_COMPLETED(calm.run(expected.inputs(), expected.outputs()));
  const int64_t peak = calm.use().peak.count();
  ASSERT_GT(peak, 0);
  size_t refused = 0;
  // Every size from nothing to enough; below the peak the iteration stops at some allocation.
  for (int64_t size = 64; size <= peak; size += 64) {
    GraphRig rig(testing::noisy_step(), testing::noisy_slots());
    NoisyBatch batch(3);
    const auto bytes = rig.image();
    const auto random = rig.random().get();
    rig.resize_lane(Bytes(size));
    const lanes::IterationReport report = rig.run(batch.inputs(), batch.outputs());
    if (size == peak) {
      EXPECT_EQ(report.outcome, IterationOutcome::completed) << problem_of(report);
    } else if (report.outcome == IterationOutcome::abandoned_out_of_lane) {
      ++refused;
      EXPECT_EQ(rig.image(), bytes) << "lane of " << size;
      EXPECT_EQ(rig.random().get(), random) << "lane of " << size;
      EXPECT_EQ(rig.use().live_count, 0U) << "lane of " << size;
      rig.resize_lane(Bytes(peak));
      ASSERT_COMPLETED(rig.run(batch.inputs(), batch.outputs()));
    } else {
      // The hooks of this test let it into its commit phase, where one allocation is left.
      EXPECT_EQ(report.outcome, IterationOutcome::failed_in_commit) << problem_of(report);
      continue;
    }
    EXPECT_EQ(rig.image(), calm.image()) << "lane of " << size;
    EXPECT_EQ(batch.loss(), expected.loss());
    EXPECT_EQ(rig.random().get(), calm.random().get());
  }
  EXPECT_GT(refused, 2U);
}

TEST(TorchGraphRunner, DoesNotDependOnWhatLayInTheLane) {
  GraphRig plain(testing::noisy_step(), testing::noisy_slots());
  GraphRig poisoned(testing::noisy_step(), testing::noisy_slots(), /*poison=*/true);
  for (int iteration = 0; iteration < 4; ++iteration) {
    NoisyBatch a(iteration);
    NoisyBatch b(iteration);
    ASSERT_COMPLETED(plain.run(a.inputs(), a.outputs()));
    ASSERT_COMPLETED(poisoned.run(b.inputs(), b.outputs()));
    EXPECT_EQ(a.loss(), b.loss());
    EXPECT_EQ(a.dropped(), b.dropped());
    EXPECT_EQ(plain.image(), poisoned.image());
  }
}

TEST(TorchGraphRunner, FollowsAnImageThatMoves) {
  GraphRig still(testing::noisy_step(), testing::noisy_slots());
  GraphRig moving(testing::noisy_step(), testing::noisy_slots());
  for (int iteration = 0; iteration < 4; ++iteration) {
    NoisyBatch a(iteration);
    NoisyBatch b(iteration);
    ASSERT_COMPLETED(still.run(a.inputs(), a.outputs()));
    ASSERT_COMPLETED(moving.run(b.inputs(), b.outputs()));
    EXPECT_EQ(still.image(), moving.image());
    moving.move_image();
  }
}

TEST(TorchGraphRunner, EvaluatesViewsOfTheImageOnceAndFollowsThem) {
  testing::GraphBuilder b("views", lanes::GraphKind::inference);
  const auto weight = b.slot(0, {4, 3});
  const auto flat = b.view(weight, {12});
  b.output(b.compute("aten::mul.Scalar", {testing::arg(flat), testing::arg_real(2.0)}, {12}));
  GraphRig rig(b.finish(), testing::noisy_slots());
  EXPECT_EQ(rig.runner().program().live_step_count(), 1U);
  for (int round = 0; round < 2; ++round) {
    std::vector<float> doubled(12);
    const lanes::OutputView output{.data = doubled.data(), .bytes = 48};
    ASSERT_COMPLETED(rig.run({}, {&output, 1}));
    for (size_t i = 0; i < doubled.size(); ++i) {
      EXPECT_EQ(doubled[i], 2 * reinterpret_cast<float*>(rig.slot(0))[i]);
    }
    rig.move_image();
    reinterpret_cast<float*>(rig.slot(0))[5] = 100;
  }
}

TEST(TorchGraphRunner, RefusesInputsOfAnotherSize) {
  GraphRig rig(testing::noisy_step(), testing::noisy_slots());
  NoisyBatch batch(0);
  const auto bytes = rig.image();
  std::vector<lanes::InputView> inputs(batch.inputs().begin(), batch.inputs().end());
  inputs[1].bytes -= 4;
  lanes::IterationReport report = rig.run(inputs, batch.outputs());
  EXPECT_EQ(report.outcome, IterationOutcome::failed_clean);
  EXPECT_EQ(report.error.code, ErrorCode::invalid_argument);
  EXPECT_THAT(report.error.message, HasSubstr("input 1 of graph 'noisy' has 124 bytes"));
  inputs.pop_back();
  report = rig.run(inputs, batch.outputs());
  EXPECT_EQ(report.outcome, IterationOutcome::failed_clean);
  EXPECT_THAT(report.error.message, HasSubstr("takes 2 inputs, got 1"));
  EXPECT_EQ(rig.image(), bytes);
  ASSERT_COMPLETED(rig.run(batch.inputs(), batch.outputs()));
}

TEST(TorchGraphRunner, CatchesSizesThatLie) {
  for (const bool lying_dtype : {false, true}) {
    lanes::Graph graph = testing::noisy_step();
    // The first product says that it is smaller, or of another type, than what mm gives.
    lanes::Value& product = graph.values[graph.nodes[0].results[0].values[0]];
    if (lying_dtype) {
      product.dtype = lanes::DType::int32;
    } else {
      product.sizes = {2, 12};
      product.strides = {12, 1};
    }
    GraphRig rig(graph, testing::noisy_slots());
    NoisyBatch batch(0);
    const auto bytes = rig.image();
    const lanes::IterationReport report = rig.run(batch.inputs(), batch.outputs());
    EXPECT_EQ(report.outcome, IterationOutcome::failed_clean);
    EXPECT_EQ(report.error.code, ErrorCode::other_layout);
    EXPECT_THAT(report.error.message,
                HasSubstr(lying_dtype ? "gave Float[8, 3], the graph declares int32[8, 3]"
                                      : "gave Float[8, 3], the graph declares float32[2, 12]"));
    EXPECT_THAT(report.error.message, HasSubstr("from train.py:1 in step"));
    EXPECT_EQ(rig.image(), bytes);
    EXPECT_EQ(rig.use().live_count, 0U);
  }
}

TEST(TorchGraphRunner, CatchesResultsThatAreMissing) {
  // The backward pass of a layer norm that was asked for none of its three gradients.
  for (const bool used : {false, true}) {
    testing::GraphBuilder b("missing", lanes::GraphKind::inference);
    const auto x = b.input({2, 3});
    const auto one = b.compute(
        "aten::sum.dim_IntList",
        {testing::arg(x), testing::arg_list({{int64_t{1}}}), lanes::NamedArgument{"", {true}}},
        {2, 1});
    const lanes::NamedArgument none{"", {lanes::NoneArgument{}}};
    const auto gradient = b.compute(
        "aten::native_layer_norm_backward",
        {testing::arg(x), testing::arg(x), testing::arg_list({{int64_t{3}}}), testing::arg(one),
         testing::arg(one), none, none, testing::arg_list({{false}, {false}, {false}})},
        {2, 3});
    b.last().results.push_back({false, {lanes::kNoValue}});
    b.last().results.push_back({false, {lanes::kNoValue}});
    b.output(used ? gradient : x);
    GraphRig rig(b.finish(), {});
    std::vector<float> data(6);
    const lanes::InputView input{.data = data.data(), .bytes = 24};
    const lanes::OutputView output{.data = data.data(), .bytes = 24};
    const lanes::IterationReport report = rig.run({&input, 1}, {&output, 1});
    EXPECT_EQ(report.outcome, used ? IterationOutcome::failed_clean : IterationOutcome::completed);
    EXPECT_THAT(report.error.message, HasSubstr(used ? "gave nothing for a result" : ""));
  }
}

TEST(TorchGraphRunner, TellsWhichNodeFailed) {
  testing::GraphBuilder b("wrong shapes", lanes::GraphKind::inference);
  const auto x = b.input({2, 3});
  b.output(b.compute("aten::mm", {testing::arg(x), testing::arg(x)}, {2, 3}));
  GraphRig rig(b.finish(), {});
  std::vector<float> data(6);
  const lanes::InputView input{.data = data.data(), .bytes = 24};
  const lanes::OutputView output{.data = data.data(), .bytes = 24};
  const lanes::IterationReport report = rig.run({&input, 1}, {&output, 1});
  EXPECT_EQ(report.outcome, IterationOutcome::failed_clean);
  EXPECT_THAT(report.error.message, HasSubstr("graph 'wrong shapes', node 0 (aten::mm)"));
  EXPECT_THAT(report.error.message, HasSubstr("from train.py:1 in step"));
}

}  // namespace
}  // namespace laneway::adaptor
