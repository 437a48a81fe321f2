// Shows what closing means, whoever is in the middle of what: everything submitted gets an answer,
// nothing runs afterwards, memory comes back, and a closed service answers instead of hanging.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "lanes/graph/graph_codec.h"
#include "tests/service/service_rig.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::service {
namespace {

using ::testing::AnyOf;
using testing::Blocker;
using ::testing::HasSubstr;
using testing::open_service;
using testing::Pending;
using testing::TinyJob;

bool says_closed(const Error& error) {
  return error.code == ErrorCode::cancelled || error.code == ErrorCode::unavailable;
}

TEST(WorkerClose, WhileAnotherThreadRunsTheJob) {
  for (int round = 0; round < 100; ++round) {
    const auto service = open_service(/*lanes=*/1 + round % 2);
    TinyJob job(*service, "closed");
    TinyJob bystander(*service, "bystander");
    std::thread client([&job, round] {
      for (;;) {
        // Every second round without waiting, so that work is queued when the job is closed.
        if (round % 2 == 0) {
          const Status done = job.run(1);
          if (!done) {
            EXPECT_TRUE(says_closed(done.error())) << done.error().message;
            return;
          }
        } else {
          const auto pending = job.submit(1);
          if (!pending) {
            if (pending.error().code == ErrorCode::busy) continue;
            EXPECT_TRUE(says_closed(pending.error())) << pending.error().message;
            return;
          }
        }
      }
    });
    for (int i = 0; i < round % 7; ++i) EXPECT_TRUE(bystander.run(1));
    job.close();
    client.join();
    EXPECT_FALSE(job.run(1));
    EXPECT_TRUE(bystander.run(1));
    EXPECT_EQ(bystander.read().value(), 2.0F * static_cast<float>(round % 7 + 1));
  }
}

TEST(WorkerClose, CancelsWhatIsQueued) {
  const auto service = open_service(/*lanes=*/1);
  TinyJob job(*service, "queued");
  ASSERT_TRUE(job.run(1));
  std::vector<Pending> pending;
  std::thread closing;
  {
    const Blocker blocker(job);
    for (int i = 0; i < 5; ++i) pending.push_back(job.submit(1).value());
    closing = std::thread([&] { service->close(); });
    // Cancelled at once, though the job is still held.
    for (const Pending& work : pending) {
      const auto done = work->wait(Duration(-1));
      ASSERT_FALSE(done->ok());
      EXPECT_EQ(done->error().code, ErrorCode::cancelled);
      EXPECT_THAT(done->error().message,
                  HasSubstr("'queued' was closed before this iteration ran"));
    }
  }
  closing.join();
  service->close();  // again
  EXPECT_EQ(job.submit(1).error().code, ErrorCode::unavailable);
  EXPECT_EQ(job.read().error().code, ErrorCode::unavailable);
  EXPECT_EQ(service->status().error().code, ErrorCode::unavailable);
  JobRequest request;
  request.slots = testing::adding_slots(4);
  request.initial = {nullptr};
  const auto late = service->create_job(request, lanes::encode_graph(testing::adding_graph(4)));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::unavailable);
}

TEST(WorkerClose, GivesTheMemoryBack) {
  const auto service = open_service(/*lanes=*/2);
  for (int i = 0; i < 50; ++i) {
    TinyJob job(*service, "short", 1000);
    ASSERT_TRUE(job.run(1));
    job.close();
    EXPECT_THAT(service->status().value(), HasSubstr("\"persistent_bytes\":0,"));
  }
}

TEST(WorkerClose, WhileJobsAreBeingMade) {
  const auto graph = lanes::encode_graph(testing::adding_graph(4));
  for (int round = 0; round < 100; ++round) {
    const auto service = open_service(/*lanes=*/2);
    std::thread maker([&] {
      for (;;) {
        JobRequest request;
        request.slots = testing::adding_slots(4);
        request.initial = {nullptr};
        const auto job = service->create_job(request, graph);
        if (job) continue;
        EXPECT_TRUE(says_closed(job.error())) << job.error().message;
        return;
      }
    });
    for (int i = 0; i < round % 10; ++i) std::this_thread::yield();
    service->close();
    maker.join();
  }
}

TEST(WorkerClose, OfAJobThatStillWaitsForMemory) {
  const auto service = open_service(/*lanes=*/2, mib(1) + kib(256));
  const int64_t count = (300 << 10) / 4;
  TinyJob first(*service, "first", count);
  TinyJob second(*service, "second", count);
  const Pending queued = second.submit(1).value();
  second.close();
  EXPECT_EQ(queued->wait(Duration(-1))->error().code, ErrorCode::cancelled);
  EXPECT_TRUE(first.run(1));
}

}  // namespace
}  // namespace laneway::service
