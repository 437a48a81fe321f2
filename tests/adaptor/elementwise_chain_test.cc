// Shows that elementwise nodes run as chains leave the bits that torch leaves when it runs them one
// by one: random programs over three slots and an input, with other operators between them that end
// chains, in sizes below, at and above a tile; and which runs of nodes become chains.
#include "adaptor/chains/elementwise_chain.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcdiv.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "adaptor/chains/chain_planner.h"
#include "base/random.h"
#include "tests/adaptor/graph_rig.h"
#include "tests/support/graph_builder.h"
#include "tests/support/seed.h"

namespace laneway::adaptor {
namespace {

using lanes::ValueIndex;
using testing::arg;
using testing::arg_real;
using ::testing::ElementsAre;
using testing::GraphBuilder;
using testing::GraphRig;
using testing::keyword;

constexpr uint32_t kSlots = 3;

std::vector<lanes::ImageSlot> slots_of(int64_t count) {
  std::vector<lanes::ImageSlot> slots(kSlots);
  for (lanes::ImageSlot& slot : slots) {
    slot.bytes = static_cast<uint64_t>(count) * sizeof(float);
  }
  return slots;
}

at::Tensor copied(const void* data, int64_t count) {
  at::Tensor tensor = at::empty({count}, at::kFloat);
  std::memcpy(tensor.mutable_data_ptr(), data, tensor.nbytes());
  return tensor;
}

// NaN where torch has NaN, else the same bytes.
bool same_bits(const at::Tensor& expected, const void* data) {
  const float* x = expected.const_data_ptr<float>();
  const float* y = static_cast<const float*>(data);
  for (int64_t i = 0; i < expected.numel(); ++i) {
    if (std::isnan(x[i]) && std::isnan(y[i])) continue;
    if (std::memcmp(&x[i], &y[i], sizeof(float)) != 0) return false;
  }
  return true;
}

// A random program, written as a graph and done by torch's own functions at the same time.
class RandomProgram {
 public:
  RandomProgram(uint64_t seed, int64_t count)
      : random_(seed), count_(count), builder_("program"), input_(count, 0.0F) {
    values_.push_back(builder_.input({count}));
    for (float& x : input_) x = static_cast<float>(random_.unit() * 4 - 2);
    tensors_.push_back(copied(input_.data(), count));
    for (uint32_t slot = 0; slot < kSlots; ++slot) values_.push_back(builder_.slot(slot, {count}));
  }

  // The graph of `nodes` nodes; `tensors` begin with the slots' bytes.
  lanes::Graph write(int nodes, std::span<const at::Tensor> slots) {
    for (const at::Tensor& slot : slots) tensors_.push_back(slot.clone());
    for (int i = 0; i < nodes; ++i) random_.chance(0.6) ? write_in_place() : write_apart();
    builder_.output(values_.back());
    return builder_.finish();
  }

  const at::Tensor& slot(uint32_t index) const { return tensors_[1 + index]; }
  const at::Tensor& last() const { return tensors_.back(); }
  std::vector<float>& input() { return input_; }

 private:
  size_t any() { return random_.below(values_.size()); }
  double number() { return random_.unit() * 2 - 0.5; }

  void write_in_place() {
    const size_t to = 1 + random_.below(kSlots);
    const size_t b = any();
    const size_t c = any();
    const double s = number();
    at::Tensor& target = tensors_[to];
    switch (random_.below(6)) {
      case 0:
        builder_.write("aten::mul_.Tensor", values_[to], {arg_real(s)});
        target.mul_(s);
        break;
      case 1:
        builder_.write("aten::lerp_.Scalar", values_[to], {arg(values_[b]), arg_real(s)});
        target.lerp_(tensors_[b], s);
        break;
      case 2:
        builder_.write("aten::addcmul_", values_[to],
                       {arg(values_[b]), arg(values_[c]), keyword("value", {s})});
        target.addcmul_(tensors_[b], tensors_[c], s);
        break;
      case 3:
        builder_.write("aten::addcdiv_", values_[to],
                       {arg(values_[b]), arg(values_[c]), keyword("value", {s})});
        target.addcdiv_(tensors_[b], tensors_[c], s);
        break;
      case 4:
        builder_.write("aten::add_.Tensor", values_[to], {arg(values_[b]), keyword("alpha", {s})});
        target.add_(tensors_[b], s);
        break;
      default: builder_.write("aten::add_.Tensor", values_[to], {arg_real(s)}); target.add_(s);
    }
  }

  void write_apart() {
    const size_t a = any();
    const size_t b = any();
    const double s = number();
    switch (random_.below(6)) {
      case 0: return keep("aten::sqrt", {arg(values_[a])}, tensors_[a].sqrt());
      case 1: return keep("aten::div.Tensor", {arg(values_[a]), arg_real(s)}, tensors_[a].div(s));
      case 2:
        return keep("aten::div.Tensor", {arg(values_[a]), arg(values_[b])},
                    tensors_[a].div(tensors_[b]));
      case 3:
        return keep("aten::sub.Tensor", {arg(values_[a]), arg(values_[b])},
                    tensors_[a].sub(tensors_[b]));
      case 4:
        return keep("aten::mul.Tensor", {arg(values_[a]), arg(values_[b])},
                    tensors_[a].mul(tensors_[b]));
      default: return keep("aten::relu", {arg(values_[a])}, at::relu(tensors_[a]));
    }
  }

  void keep(const std::string& op, std::vector<lanes::NamedArgument> arguments,
            const at::Tensor& result) {
    values_.push_back(builder_.compute(op, std::move(arguments), {count_}));
    tensors_.push_back(result.clone());
  }

  Random random_;
  const int64_t count_;
  GraphBuilder builder_;
  std::vector<float> input_;
  std::vector<ValueIndex> values_;   // the input, the slots, what nodes made
  std::vector<at::Tensor> tensors_;  // the same by torch
};

TEST(ElementwiseChain, LeavesTheBitsThatTorchLeaves) {
  const uint64_t seed = testing::seed_from_environment(1);
  for (uint64_t round = 0; round < 120; ++round) {
    for (const int64_t count : {1, 5, 64, 1'000, 8'192, 20'001}) {
      if (count > 5'000 && round % 10 != 0) continue;
      SCOPED_TRACE("round " + std::to_string(round) + ", " + std::to_string(count) + " elements");
      RandomProgram program(seed * 1'000 + round, count);
      const auto slots = slots_of(count);
      // The rig's slots hold the same numbers for every graph of these slots.
      GraphRig blank(GraphBuilder("blank").finish(), slots);
      std::vector<at::Tensor> before;
      for (uint32_t i = 0; i < kSlots; ++i) before.push_back(copied(blank.slot(i), count));
      GraphRig rig(program.write(12, before), slots);
      for (uint32_t i = 0; i < kSlots; ++i) {
        std::memcpy(rig.slot(i), before[i].const_data_ptr(), before[i].nbytes());
      }
      rig.resize_lane(mib(4));
      std::vector<float> out(static_cast<size_t>(count));
      const lanes::InputView in{.data = program.input().data(),
                                .bytes = program.input().size() * sizeof(float)};
      const lanes::OutputView to{.data = out.data(), .bytes = out.size() * sizeof(float)};
      const lanes::IterationReport report = rig.run({&in, 1}, {&to, 1});
      ASSERT_EQ(report.outcome, lanes::IterationOutcome::completed) << report.error.message;
      for (uint32_t i = 0; i < kSlots; ++i) {
        ASSERT_TRUE(same_bits(program.slot(i), rig.slot(i))) << "slot " << i;
      }
      ASSERT_TRUE(same_bits(program.last(), out.data())) << "output";
    }
  }
}

// An Adam step's denominator: the square root of a slot, and what is added.
lanes::Graph denominator(int64_t count) {
  GraphBuilder builder("denominator");
  const ValueIndex second = builder.slot(0, {count});
  const ValueIndex to = builder.slot(1, {count});
  const ValueIndex root = builder.compute("aten::sqrt", {arg(second)}, {count});
  const ValueIndex more = builder.compute("aten::add.Tensor", {arg(root), arg_real(0.5)}, {count});
  builder.write("aten::addcmul_", to, {arg(more), arg(more), keyword("value", {1.0})});
  return builder.finish();
}

// Jobs with equal graphs run copies of one chain, in lanes beside each other.
TEST(ElementwiseChain, CopiesRunBesideEachOther) {
  constexpr int64_t kCount = 40;
  constexpr int kRuns = 20'000;
  const lanes::Graph graph = denominator(kCount);
  const auto planned = plan_chains(graph);
  ASSERT_EQ(planned.size(), 1U);
  std::vector<int> wrong(2, 0);
  std::vector<std::thread> threads;
  for (int id = 0; id < 2; ++id) {
    threads.emplace_back([&, id, chain = planned[0].chain]() mutable {
      ValueTable values(graph.values.size());
      const at::Tensor second = at::full({kCount}, id + 1.0, at::kFloat);
      const at::Tensor to = at::zeros({kCount}, at::kFloat);
      const at::Tensor expected = second.sqrt().add(0.5);
      expected.mul_(expected);
      values[0] = second;
      values[1] = to;
      for (int run = 0; run < kRuns; ++run) {
        to.zero_();
        if (!chain.run(values) || !at::equal(to, expected)) ++wrong[id];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0));
}

TEST(ElementwiseKernels, MatchTorchOnThisProcessor) {
  // Not a law of nature, but where one does not, a whole class of optimizers loses its speed-up.
  for (size_t op = 0; op < kElementwiseOpCount; ++op) {
    EXPECT_TRUE(elementwise_kernel(static_cast<ElementwiseOp>(op)).has_value()) << "op " << op;
  }
}

// An AdamW update of one parameter (slots: parameter, first and second moment; input: gradient).
lanes::Graph adam_update(bool with_a_reader_in_the_middle) {
  GraphBuilder builder("adam");
  const ValueIndex gradient = builder.input({6});
  const ValueIndex parameter = builder.slot(0, {6});
  const ValueIndex first = builder.slot(1, {6});
  const ValueIndex second = builder.slot(2, {6});
  builder.write("aten::mul_.Tensor", parameter, {arg_real(0.999)});
  builder.write("aten::lerp_.Scalar", first, {arg(gradient), arg_real(0.1)});
  if (with_a_reader_in_the_middle) {
    builder.output(builder.compute("aten::relu", {arg(first)}, {6}));
  }
  builder.write("aten::addcmul_", second, {arg(gradient), arg(gradient), keyword("value", {0.1})});
  const ValueIndex root = builder.compute("aten::sqrt", {arg(second)}, {6});
  const ValueIndex scaled = builder.compute("aten::div.Tensor", {arg(root), arg_real(0.5)}, {6});
  builder.write("aten::addcdiv_", parameter, {arg(first), arg(scaled), keyword("value", {-0.01})});
  return builder.finish();
}

TEST(ChainPlanner, TakesAWholeUpdateAsOneChain) {
  const auto chains = plan_chains(adam_update(false));
  ASSERT_EQ(chains.size(), 1U);
  EXPECT_THAT(chains[0].nodes, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(ChainPlanner, EndsAChainBeforeANodeThatReadsWhatItWrites) {
  // Node 2 reads the first moment, which node 1 writes: node 1 cannot wait for the rest.
  const auto chains = plan_chains(adam_update(true));
  ASSERT_EQ(chains.size(), 2U);
  EXPECT_THAT(chains[0].nodes, ElementsAre(0, 3, 4, 5, 6));
  EXPECT_THAT(chains[1].nodes, ElementsAre(1));
}

TEST(ChainPlanner, LeavesLargeTensorsOfSeveralThreadsToTorch) {
  lanes::Graph graph = adam_update(false);
  for (lanes::Value& value : graph.values) {
    if (!value.sizes.empty()) value.sizes = {40'000};
  }
  EXPECT_EQ(plan_chains(graph).size(), 1U);
  graph.context.threads = 2;
  EXPECT_TRUE(plan_chains(graph).empty());
}

}  // namespace
}  // namespace laneway::adaptor
