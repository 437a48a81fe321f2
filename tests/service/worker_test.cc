// Shows what clients of one service are promised: their iterations run in order and once, a lane
// that is shared gives everybody turns, state is read between the submissions around it, limits and
// refusals are told and harm nobody. Jobs count along (tests/service/service_rig.h).
#include "service/worker/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

#include "base/limits.h"
#include "lanes/graph/graph_codec.h"
#include "tests/service/service_rig.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::service {
namespace {

using testing::Blocker;
using ::testing::HasSubstr;
using testing::open_service;
using testing::Pending;
using testing::TinyJob;

TEST(Worker, RunsTwoJobsInOneLane) {
  const auto service = open_service(/*lanes=*/1);
  TinyJob a(*service, "a");
  TinyJob b(*service, "b", 300);
  const auto train = [](TinyJob& job, float value) {
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(job.run(value));
  };
  std::thread other([&] { train(b, 3); });
  train(a, 1);
  other.join();
  EXPECT_EQ(a.read().value(), 400);
  EXPECT_EQ(b.read().value(), 1200);
  EXPECT_THAT(service->status().value(), HasSubstr("\"lanes\":[{\"id\":1,"));
  EXPECT_EQ(service->status().value().find("\"lanes\":[{\"id\":2"), std::string::npos);
}

TEST(Worker, RecallsATurnWhenAnotherJobIsReady) {
  // The hog never lets its queue run empty until the other is through: that ends only if its turn
  // is taken from it.
  const auto service = open_service(/*lanes=*/1);
  TinyJob hog(*service, "hog");
  TinyJob guest(*service, "guest");
  std::atomic<bool> enough{false};
  std::thread hogging([&] {
    std::deque<std::pair<Pending, float>> flying;
    while (!enough || !flying.empty()) {
      while (!enough && flying.size() < 8) {
        Pending pending = hog.submit(1).value();
        flying.emplace_back(std::move(pending), hog.expected());
      }
      if (flying.empty()) break;
      ASSERT_TRUE(hog.wait(flying.front().first, flying.front().second));
      flying.pop_front();
    }
  });
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(guest.run(1));
  // Its report and a new graph need no gap in its work either.
  EXPECT_EQ(service->worker().plans(*hog.handle()).size(), 1U);
  EXPECT_EQ(service->worker()
                .add_graph(*hog.handle(), lanes::encode_graph(testing::reading_graph(16)))
                .value(),
            1U);
  enough = true;
  hogging.join();
  EXPECT_EQ(guest.read().value(), 100);
  EXPECT_EQ(hog.read().value(), hog.expected());
}

TEST(Worker, OrdersStateBetweenSubmissions) {
  const auto service = open_service(/*lanes=*/2);
  TinyJob job(*service, "ordered");
  std::vector<std::pair<Pending, float>> pending;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 5; ++i) {
      Pending next = job.submit(1).value();
      pending.emplace_back(std::move(next), job.expected());
    }
    EXPECT_EQ(job.read().value(), job.expected());
  }
  for (const auto& [work, expected] : pending) EXPECT_TRUE(job.wait(work, expected));
}

TEST(Worker, RefusesMoreThanItsLimitInFlight) {
  const auto service = open_service(/*lanes=*/1);
  TinyJob job(*service, "eager");
  ASSERT_TRUE(job.run(1));
  std::vector<std::pair<Pending, float>> pending;
  {
    const Blocker blocker(job);
    for (uint32_t i = 0; i < limits::kMaxInFlight; ++i) {
      Pending next = job.submit(1).value();
      pending.emplace_back(std::move(next), job.expected());
    }
    const auto refused = job.submit(1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::busy);
    EXPECT_FALSE(service->worker().wait_for_room(*job.handle(), milliseconds(1)).has_value());
    EXPECT_THAT(refused.error().message, HasSubstr("'eager' has 64 iterations in flight"));
  }
  EXPECT_TRUE(service->worker().wait_for_room(*job.handle(), Duration(-1))->ok());
  for (const auto& [work, expected] : pending) EXPECT_TRUE(job.wait(work, expected));
  EXPECT_EQ(job.read().value(), 2 * (1 + limits::kMaxInFlight));
}

TEST(Worker, RefusesAJobThatCanNeverFit) {
  const auto service = open_service(/*lanes=*/2, mib(1));
  TinyJob small(*service, "small");
  ASSERT_TRUE(small.run(1));
  JobRequest request;
  request.options.name = "large";
  request.slots = testing::adding_slots(1 << 20);
  request.initial = {nullptr};
  const auto refused =
      service->create_job(request, lanes::encode_graph(testing::adding_graph(1 << 20)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_THAT(refused.error().message, HasSubstr("4 MiB"));
  EXPECT_THAT(refused.error().message, HasSubstr("1 MiB"));
  EXPECT_TRUE(small.run(1));
}

TEST(Worker, AJobThatWaitsGetsInWhenAnotherLeaves) {
  // An image takes 600 KiB, and a lane twice as much: there is no room for two images and a lane.
  const auto service = open_service(/*lanes=*/2, mib(2) + kib(256));
  const int64_t count = (600 << 10) / 4;
  TinyJob first(*service, "first", count);
  ASSERT_TRUE(first.run(1));
  TinyJob second(*service, "second", count);
  EXPECT_FALSE(second.worker().wait_placed(*second.handle(), microseconds(1)).has_value());
  EXPECT_NE(second.worker().waiting_reason(*second.handle()).code, lanes::ReasonCode::none);
  EXPECT_EQ(second.read().value(), 0);  // its initial bytes
  const Pending early = second.submit(1).value();
  first.close();
  EXPECT_TRUE(second.wait(early, 2));
  EXPECT_TRUE(second.run(1));
}

TEST(Worker, AGraphThatCanNeverFitLeavesItsJobAlone) {
  const auto service = open_service(/*lanes=*/1, mib(2));
  TinyJob job(*service, "job");
  ASSERT_TRUE(job.run(1));
  const auto refused =
      job.worker().add_graph(*job.handle(), lanes::encode_graph(testing::doubling_graph(1 << 20)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_THAT(refused.error().message, HasSubstr("needs 4 MiB while it runs; the pool has"));
  EXPECT_TRUE(job.run(1));
  EXPECT_EQ(job.read().value(), 4);
}

TEST(Worker, AJobMayHaveNoState) {
  const auto service = open_service(/*lanes=*/1);
  const lanes::Graph graph = testing::doubling_graph(2);
  JobRequest request;
  request.options.name = "stateless";
  const JobHandle job = service->create_job(request, lanes::encode_graph(graph)).value();
  Worker& worker = service->worker();
  for (int i = 0; i < 3; ++i) {
    auto access = std::make_shared<Work>([](const pipeline::SlotPlaces&) { return Status(); });
    ASSERT_TRUE(worker.access_state(job, access));
    EXPECT_TRUE(access->wait(Duration(-1))->ok());
    const float in[2] = {1, 2};
    const lanes::InputView input{in, 8};
    auto work = std::make_shared<Work>(worker.find_graph(*job, 0).value(), std::span(&input, 1));
    ASSERT_TRUE(worker.submit(job, work));
    ASSERT_TRUE(work->wait(Duration(-1))->ok());
    EXPECT_EQ(static_cast<const float*>(work->outputs()[0].data)[1], 4);
  }
}

TEST(Worker, UsesThePoolsRestWhenAnEstimateIsTooLarge) {
  // Image and need together are close to the pool's size; the estimate alone would exceed it.
  const int64_t count = (400 << 10) / 4;
  const auto service = open_service(/*lanes=*/1, Bytes(3 * (400 << 10) + 4096));
  TinyJob job(*service, "tight", count);
  EXPECT_TRUE(job.run(1));
  EXPECT_TRUE(job.run(1));
}

}  // namespace
}  // namespace laneway::service
