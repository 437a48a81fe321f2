// Shows that work keeps copies of its inputs at aligned addresses, has room for every output, and
// completes once, for whoever waits.
#include "service/worker/run/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "adaptor/device/device_job.h"
#include "base/limits.h"
#include "lanes/graph/graph_codec.h"
#include "tests/service/tiny_graphs.h"
#include "tests/support/graph_builder.h"

namespace laneway::service {
namespace {

using ::testing::HasSubstr;

// A graph without state as the only one of a job.
struct LoadedGraph {
  explicit LoadedGraph(const lanes::Graph& graph)
      : made(adaptor::make_job(*backend, {}, lanes::encode_graph(graph), mib(1)).value()),
        handle(std::make_shared<WorkerGraph>(0, std::move(made.graph))) {}

  const std::unique_ptr<adaptor::Backend> backend = adaptor::open_backend("host", {}).value();
  adaptor::MadeJob made;
  GraphHandle handle;
};

TEST(Work, CopiesInputsToAlignedPlaces) {
  testing::GraphBuilder b("three", lanes::GraphKind::inference);
  const auto odd = b.input({3});
  const auto rate = b.number_input();
  const auto bytes = b.input({5}, lanes::DType::uint8);
  b.output(odd);
  b.output(rate);
  b.output(bytes);
  const lanes::Graph graph = b.finish();
  std::vector<float> first = {1, 2, 3};
  const uint8_t second[5] = {5, 6, 7, 8, 9};
  const lanes::InputView inputs[] = {{first.data(), 12}, {nullptr, 0, 0.5, 0}, {second, 5}};
  const LoadedGraph loaded(graph);
  const Work work(loaded.handle, inputs);
  first.assign(3, 0);  // the client's bytes may change once it is made
  ASSERT_EQ(work.inputs().size(), 3U);
  EXPECT_EQ(static_cast<const float*>(work.inputs()[0].data)[2], 3);
  EXPECT_EQ(work.inputs()[1].real, 0.5);
  EXPECT_EQ(static_cast<const uint8_t*>(work.inputs()[2].data)[4], 9);
  ASSERT_EQ(work.outputs().size(), 3U);
  const uint64_t sizes[] = {12, 8, 5};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(work.outputs()[i].bytes, sizes[i]);
    EXPECT_EQ(output_bytes(graph, graph.outputs[i]), sizes[i]);
    for (const void* place :
         {work.inputs()[i].data, static_cast<const void*>(work.outputs()[i].data)}) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(place) % limits::kHostAlignment, 0U);
    }
  }
}

TEST(Work, CopiesOutputsOnlyToFittingPlaces) {
  const lanes::Graph graph = testing::doubling_graph(2);
  const float in[2] = {1, 2};
  const lanes::InputView input{in, 8};
  const LoadedGraph loaded(graph);
  const Work work(loaded.handle, {&input, 1});
  const float result[2] = {3, 4};
  std::copy(result, result + 2, static_cast<float*>(work.outputs()[0].data));
  float out[2] = {};
  EXPECT_THAT(work.copy_outputs({}).error().message,
              HasSubstr("has 1 outputs, room was given for 0"));
  const lanes::OutputView small{out, 4};
  EXPECT_EQ(work.copy_outputs({&small, 1}).error().message,
            "output 0 of the iteration has 8 bytes, room was given for 4");
  const lanes::OutputView nowhere{nullptr, 8};
  EXPECT_THAT(work.copy_outputs({&nowhere, 1}).error().message, HasSubstr("room was given for 0"));
  const lanes::OutputView right{out, 8};
  ASSERT_TRUE(work.copy_outputs({&right, 1}));
  EXPECT_EQ(out[1], 4);
}

TEST(Work, CompletesOnce) {
  Work work([](const pipeline::SlotPlaces&) { return Status(); });
  EXPECT_FALSE(work.is_iteration());
  EXPECT_FALSE(work.wait(Duration()).has_value());
  EXPECT_FALSE(work.wait(microseconds(50)).has_value());
  work.complete(Error{ErrorCode::cancelled, "first"});
  work.complete({});
  for (const Duration limit : {Duration(), Duration(-1), seconds(1), Duration(INT64_MAX)}) {
    const auto done = work.wait(limit);
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->error().message, "first");
  }
}

TEST(Work, WakesThoseWhoWaitWithoutALimit) {
  Work work([](const pipeline::SlotPlaces&) { return Status(); });
  std::vector<std::thread> waiters;
  for (const int64_t limit : {int64_t{-1}, INT64_MAX, seconds(3600).ns()}) {
    waiters.emplace_back([&work, limit] { EXPECT_TRUE(work.wait(Duration(limit)).value().ok()); });
  }
  work.complete({});
  for (std::thread& waiter : waiters) waiter.join();
}

}  // namespace
}  // namespace laneway::service
