// Shows that graphs are shared by their bytes and slots and by nothing else: hashes that are all
// equal mix nothing up; that a graph is known while somebody has it, and afterwards within the
// limits; and that what jobs of one user measured is not given to another's.
#include "service/worker/run/graph_cache.h"

#include <gtest/gtest.h>

#include <thread>

#include "lanes/graph/graph_codec.h"
#include "service/worker/common/limits.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::service {
namespace {

using Bytecode = std::vector<std::byte>;

constexpr int64_t kCount = 64;

Bytecode bytes_of(size_t number, size_t size = 16) {
  Bytecode bytes(size);
  for (size_t i = 0; i < sizeof(number); ++i) bytes[i] = std::byte(number >> (8 * i));
  return bytes;
}

struct Nothing final : adaptor::DeviceProgram {};

adaptor::ProgramHandle program() { return std::make_shared<Nothing>(); }

TEST(GraphCache, GivesTheGraphOfTheSameBytesAndSlots) {
  GraphCache cache;
  const auto slots = testing::adding_slots(kCount);
  EXPECT_EQ(cache.find(bytes_of(1), slots), nullptr);
  const auto first = program();
  const auto known = cache.add(bytes_of(1), slots, first);
  EXPECT_EQ(known->program(), first);
  EXPECT_EQ(cache.find(bytes_of(1), slots), known);
  EXPECT_EQ(cache.add(bytes_of(1), slots, program()), known) << "the first one stays";
  EXPECT_EQ(cache.find(bytes_of(2), slots), nullptr);
  EXPECT_EQ(cache.find(bytes_of(1), testing::adding_slots(kCount + 1)), nullptr);
  EXPECT_EQ(cache.find(bytes_of(1), {}), nullptr);
}

TEST(GraphCache, HashesThatCollideMixNothingUp) {
  GraphCache cache([](std::span<const std::byte>) { return uint64_t{7}; });
  std::vector<KnownGraphHandle> known;
  std::vector<adaptor::ProgramHandle> programs;
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(cache.find(bytes_of(i), {}), nullptr);
    programs.push_back(program());
    known.push_back(cache.add(bytes_of(i), {}, programs.back()));
  }
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(cache.find(bytes_of(i), {}), known[i]);
    EXPECT_EQ(known[i]->program(), programs[i]);
  }
  EXPECT_EQ(cache.find(bytes_of(1, 17), {}), nullptr) << "a graph that begins with another one";
}

TEST(GraphCache, KeepsWhatIsUsedAndTheLatestOfTheRest) {
  GraphCache cache;
  const size_t many = 2 * limits::kMaxUnusedGraphs;
  std::vector<KnownGraphHandle> used;
  for (size_t i = 0; i < many; ++i) used.push_back(cache.add(bytes_of(i), {}, program()));
  EXPECT_EQ(cache.counts().known, many) << "what is used is no matter of limits";
  EXPECT_EQ(cache.counts().unused, 0U);
  const std::weak_ptr<const adaptor::DeviceProgram> first = used[0]->program();
  for (KnownGraphHandle& handle : used) handle.reset();
  EXPECT_EQ(cache.counts().known, limits::kMaxUnusedGraphs);
  EXPECT_EQ(cache.counts().unused, limits::kMaxUnusedGraphs);
  EXPECT_TRUE(first.expired());
  EXPECT_EQ(cache.find(bytes_of(0), {}), nullptr) << "released first";
  const auto last = cache.find(bytes_of(many - 1), {});
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(cache.counts().unused, limits::kMaxUnusedGraphs - 1) << "it is used again";
}

TEST(GraphCache, KeepsNoMoreUnusedBytesThanTheLimit) {
  GraphCache cache;
  const auto large = static_cast<size_t>(limits::kMaxUnusedGraphBytes.count()) / 4 + 1;
  for (size_t i = 0; i < 6; ++i) (void)cache.add(bytes_of(i, large), {}, program());
  EXPECT_EQ(cache.counts().unused, 3U);
  EXPECT_EQ(cache.find(bytes_of(2, large), {}), nullptr);
  EXPECT_NE(cache.find(bytes_of(3, large), {}), nullptr);
  EXPECT_NE(cache.find(bytes_of(5, large), {}), nullptr);
}

TEST(GraphCache, MayGoBeforeTheJobsThatUseIt) {
  KnownGraphHandle handle;
  {
    GraphCache cache;
    handle = cache.add(bytes_of(1), {}, program());
  }
  EXPECT_NE(handle->program(), nullptr);
}

TEST(GraphCache, ManyThreadsMayTakeAndReleaseOneGraph) {
  GraphCache cache;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (size_t i = 0; i < 500; ++i) {
        const Bytecode bytes = bytes_of((i + t) % (limits::kMaxUnusedGraphs + 8));
        KnownGraphHandle known = cache.find(bytes, {});
        if (known == nullptr) known = cache.add(bytes, {}, program());
        EXPECT_TRUE(known->is(bytes, {}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.counts().known, cache.counts().unused);
  EXPECT_LE(cache.counts().unused, limits::kMaxUnusedGraphs);
}

TEST(GraphCache, MakesOneProgramOfEqualGraphsAndAnotherOfOthers) {
  const auto backend = adaptor::open_backend("host", {}).value();
  GraphCache cache;
  const auto slots = testing::adding_slots(kCount);
  const Bytecode adding = lanes::encode_graph(testing::adding_graph(kCount));
  const Bytecode reading = lanes::encode_graph(testing::reading_graph(kCount));
  const auto make = [&](const Bytecode& graph) {
    return cache.make_job(*backend, slots, graph, mib(1)).value();
  };
  const auto first = make(adding);
  const auto second = make(adding);
  const auto other = make(reading);
  EXPECT_FALSE(first.origin.was_known);
  EXPECT_TRUE(second.origin.was_known);
  EXPECT_FALSE(other.origin.was_known);
  EXPECT_EQ(first.origin.known, second.origin.known);
  EXPECT_EQ(first.made.graph->program(), second.made.graph->program());
  EXPECT_EQ(&first.made.graph->graph(), &second.made.graph->graph()) << "decoded once";
  EXPECT_NE(first.made.graph->program(), other.made.graph->program());
  // A further graph of one job is another job's first one.
  const auto further = cache.make_graph(*first.made.job, reading, mib(1)).value();
  EXPECT_TRUE(further.origin.was_known);
  EXPECT_EQ(further.made->program(), other.made.graph->program());
}

TEST(GraphCache, NothingIsKnownOfAGraphThatIsRefused) {
  const auto backend = adaptor::open_backend("host", {}).value();
  GraphCache cache;
  const Bytecode garbage = bytes_of(1);
  EXPECT_FALSE(cache.make_job(*backend, {}, garbage, mib(1)));
  EXPECT_EQ(cache.counts().known, 0U);
}

KnownGraph::Learnt learnt_plan(uint64_t bytes) {
  memory::AllocationTape tape;
  tape.allocations = {{bytes, 0}};
  tape.frees = {0};
  PlanCache plans(64);
  return {.plan = plans.plan(tape), .marks = {}, .longest_node = Duration()};
}

TEST(KnownGraph, WhatOneUsersJobsMeasuredIsNotAnothers) {
  KnownGraph graph(bytes_of(1), {}, program());
  EXPECT_FALSE(graph.learnt(1000));
  const auto own = learnt_plan(64);
  graph.learn(1000, own);
  ASSERT_TRUE(graph.learnt(1000));
  EXPECT_EQ(graph.learnt(1000)->plan.planned, own.plan.planned);
  EXPECT_FALSE(graph.learnt(1001));
  graph.note_longest(1001, milliseconds(3));
  EXPECT_FALSE(graph.learnt(1001)) << "a time is no plan";
  graph.note_longest(1000, milliseconds(3));
  graph.note_longest(1000, milliseconds(2));
  EXPECT_EQ(graph.learnt(1000)->longest_node, milliseconds(3));
}

TEST(KnownGraph, APlanThatDidNotFitIsForgottenUnlessThereIsANewerOne) {
  KnownGraph graph(bytes_of(1), {}, program());
  const auto first = learnt_plan(64);
  const auto second = learnt_plan(128);
  graph.learn(1000, first);
  graph.learn(1000, second);
  graph.forget(1000, first.plan.planned.get());
  ASSERT_TRUE(graph.learnt(1000));
  graph.forget(1000, second.plan.planned.get());
  EXPECT_FALSE(graph.learnt(1000));
}

TEST(KnownGraph, HasPlansOfABoundedNumberOfUsers) {
  KnownGraph graph(bytes_of(1), {}, program());
  size_t planned = 0;
  for (uint32_t user = 0; user < 2 * limits::kMaxUsersOfPlans; ++user) {
    graph.learn(user, learnt_plan(64));
  }
  for (uint32_t user = 0; user < 2 * limits::kMaxUsersOfPlans; ++user) {
    planned += graph.learnt(user) ? 1 : 0;
  }
  EXPECT_EQ(planned, limits::kMaxUsersOfPlans);
}

}  // namespace
}  // namespace laneway::service
