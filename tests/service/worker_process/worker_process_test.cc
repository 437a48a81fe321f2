// Shows laneway-worker at work for clients in other processes' places: iterations through rings,
// several in flight, ordered with accesses to the state; several clients of a job; brokers that
// come and go; jobs that end; and clients that write what makes no sense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/service/tiny_graphs.h"
#include "tests/service/worker_process/process_client.h"

namespace laneway::service {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::ProcessClient;
using testing::ProcessJob;
using testing::WorkerRig;

ProcessJob::Form adding(const std::string& name = "adding", int64_t count = 16) {
  return {.name = name,
          .user = 1,
          .slots = testing::adding_slots(count),
          .graph = testing::adding_graph(count),
          .initial = {}};
}

float figure(const Result<std::vector<std::byte>>& state) {
  float first = 0;
  std::memcpy(&first, state.value().data(), sizeof(first));
  return first;
}

TEST(WorkerProcess, IterationsGoThroughARing) {
  WorkerRig rig;
  rig.start();
  ProcessJob job(rig, adding());
  ASSERT_FALSE(job.refused());
  ProcessClient client(job);
  for (int i = 1; i <= 200; ++i) {
    EXPECT_THAT(client.run(1).value(), Each(2.0F * static_cast<float>(i)));
  }
  EXPECT_EQ(figure(client.read_state()), 400);
}

TEST(WorkerProcess, SeveralAreInFlightAndOrderedWithTheState) {
  WorkerRig rig;
  rig.start();
  ProcessJob job(rig, adding());
  ProcessClient client(job, 64);
  std::vector<ProcessClient::Handle> pending;
  for (uint32_t i = 0; i < 63; ++i) pending.push_back(client.submit(1, i));
  EXPECT_EQ(figure(client.read_state()), 126);  // after all of them
  for (uint32_t i = 0; i < 63; ++i) {
    ASSERT_TRUE(client.wait(pending[i]));
    EXPECT_THAT(client.output(i), Each(2.0F * static_cast<float>(i + 1)));
  }
  std::vector<float> state(16, 1000);
  ASSERT_TRUE(client.write_state(std::as_bytes(std::span(state))));
  EXPECT_THAT(client.run(1).value(), Each(1002.0F));
}

TEST(WorkerProcess, ClientsOfOneJobTakeTurns) {
  WorkerRig rig;
  rig.start();
  ProcessJob job(rig, adding());
  ProcessClient first(job);
  ProcessClient second(job);
  const uint32_t reading = job.add_graph(testing::reading_graph(16));
  ProcessClient third(job);  // its blocks have room for the new graph too
  for (int i = 1; i <= 20; ++i) {
    const auto one = first.submit(1);
    const auto other = second.submit(1);
    EXPECT_TRUE(first.wait(one));
    EXPECT_TRUE(second.wait(other));
    EXPECT_THAT(third.run(1, reading).value(), Each(4.0F * static_cast<float>(i) + 1));
  }
  second.detach();
  EXPECT_THAT(first.run(1).value(), Each(82.0F));
}

// Who adds a graph waits until the job is idle, and the requests that are there wait for the graph.
TEST(WorkerProcess, AGraphJoinsWhileRequestsWait) {
  constexpr int64_t kMany = 1 << 19;  // floats: an iteration takes longer than asking for the graph
  constexpr uint32_t kInFlight = 8;
  constexpr int kRounds = 50;
  WorkerRig rig(mib(64));
  rig.start();
  ProcessJob job(rig, adding("adding", kMany));
  ProcessClient client(job, kInFlight);
  for (int round = 1; round <= kRounds; ++round) {
    std::vector<ProcessClient::Handle> pending;
    for (uint32_t i = 0; i < kInFlight; ++i) pending.push_back(client.submit(1, i));
    EXPECT_EQ(job.add_graph(testing::reading_graph(kMany)), static_cast<uint32_t>(round));
    for (const auto& handle : pending) ASSERT_TRUE(client.wait(handle));
  }
  EXPECT_EQ(figure(client.read_state()), 2.0F * kInFlight * kRounds);
}

TEST(WorkerProcess, AJobThatWaitsHasItsStateReadAndReplaced) {
  WorkerRig rig(mib(2), 1);
  rig.start();
  constexpr int64_t kMany = 135 << 10;  // floats: two of them and their lane do not fit
  ProcessJob resident(rig, adding("resident", kMany));
  ProcessClient owner(resident, 1);
  ASSERT_TRUE(owner.run(1).ok());
  ProcessJob waiting(rig, adding("waiting", kMany));
  ProcessClient client(waiting, 2);
  ASSERT_EQ(rig.snapshot().jobs.size(), 2U);
  ASSERT_EQ(rig.snapshot().jobs[1].state, lanes::JobState::waiting);
  std::vector<float> state(kMany, 5);
  EXPECT_EQ(figure(client.read_state()), 0);
  ASSERT_TRUE(client.write_state(std::as_bytes(std::span(state))));
  EXPECT_EQ(figure(client.read_state()), 5);
  // One that is taken back before it began never runs; the next one does.
  const auto first = client.submit(100, 0);
  const auto second = client.submit(1, 1);
  EXPECT_TRUE(client.ring().cancel(first));
  resident.close();
  EXPECT_EQ(client.wait(first).error().code, ErrorCode::cancelled);
  ASSERT_TRUE(client.wait(second));
  EXPECT_THAT(client.output(1), Each(7.0F));
}

TEST(WorkerProcess, ABrokerThatGoesAwayIsNotMissed) {
  WorkerRig rig;
  rig.start();
  ProcessJob job(rig, adding());
  ProcessJob other(rig, adding("other"));
  ProcessClient client(job);
  ProcessClient stranger(other);
  float expected = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 3; ++i) EXPECT_THAT(client.run(1).value(), Each(expected += 2));
    const auto over_the_change = client.submit(1);
    rig.replace_broker();
    EXPECT_TRUE(client.wait(over_the_change));
    expected += 2;
    EXPECT_THAT(stranger.run(1).value(), Each(2.0F * static_cast<float>(round + 1)));
    const lanes::Snapshot snapshot = rig.snapshot();
    EXPECT_EQ(snapshot.jobs.size(), 2U);
    EXPECT_EQ(snapshot.ignored_events, 0U);
  }
}

TEST(WorkerProcess, AJobThatIsClosedTellsItsClientsAndGivesItsMemoryBack) {
  WorkerRig rig;
  rig.start();
  ProcessJob keeper(rig, adding("keeper"));
  ProcessClient keeping(keeper);
  for (int round = 0; round < 5; ++round) {
    ProcessJob job(rig, adding("closed"));
    ProcessClient client(job);
    ProcessClient attached(job);
    ASSERT_TRUE(client.run(1).ok());
    std::vector<ProcessClient::Handle> pending;
    for (uint32_t i = 0; i < 8; ++i) pending.push_back(client.submit(1, i));
    job.close("somebody wanted it gone");
    EXPECT_FALSE(rig.gone(job.id())->has_value());
    for (const auto& handle : pending) {
      const Status done = client.wait(handle);
      if (done) continue;  // it ran before
      EXPECT_EQ(done.error().code, ErrorCode::cancelled);
      EXPECT_THAT(done.error().message, HasSubstr("somebody wanted it gone"));
    }
    EXPECT_FALSE(attached.ring().check_open());
    EXPECT_TRUE(keeping.run(1).ok());
  }
  EXPECT_EQ(rig.snapshot().jobs.size(), 1U);
}

TEST(WorkerProcess, OneThatCanNeverRunIsRefused) {
  WorkerRig rig(mib(1));
  rig.start();
  ProcessJob huge(rig, adding("huge", 1 << 20));
  ASSERT_FALSE(huge.refused());
  rig.until([&] { return rig.gone(huge.id()) != nullptr; }, "the refusal");
  EXPECT_EQ((*rig.gone(huge.id()))->code, ErrorCode::out_of_memory);
  // Whoever asked for something of it before the end was heard of is told the same.
  const auto answer = rig.ask(wire::to_worker::JobReport{.job = huge.id().value()});
  const auto* reply = std::get_if<wire::from_worker::Reply>(&answer);
  ASSERT_NE(reply, nullptr);
  EXPECT_FALSE(reply->ok);
  EXPECT_EQ(reply->code, ErrorCode::out_of_memory);
  EXPECT_EQ(reply->message, (*rig.gone(huge.id()))->message);
  ProcessJob::Form broken = adding("broken");
  broken.graph.nodes[0].op = "aten::no_such_operator";
  ProcessJob job(rig, std::move(broken));
  ASSERT_TRUE(job.refused());
  EXPECT_EQ(job.refused()->code, ErrorCode::invalid_graph);
  ProcessJob small(rig, adding("small"));
  EXPECT_FALSE(small.refused());
}

TEST(WorkerProcess, ReportsAJob) {
  WorkerRig rig;
  rig.start();
  ProcessJob job(rig, adding());
  ProcessClient client(job);
  ASSERT_TRUE(client.run(1).ok());
  wire::to_worker::JobReport question;
  question.job = job.id().value();
  const auto answer = rig.ask(question);
  EXPECT_THAT(std::get<wire::from_worker::JobText>(answer).text, HasSubstr("\"adding\""));
}

TEST(WorkerProcess, WhatMakesNoSenseIsAnswered) {
  WorkerRig rig;
  rig.start();
  ProcessJob job(rig, adding());
  ProcessClient client(job);
  const auto answer = [&](RingClient::Request request) {
    const Status done = client.wait(client.submit(request));
    return done ? "ok" : done.error().message;
  };
  const uint32_t segment = ProcessClient::kSegment;
  EXPECT_THAT(answer({RingKind::iteration, 5, segment, 0}), HasSubstr("no graph numbered 5"));
  EXPECT_THAT(answer({RingKind::iteration, 0, 8, 0}), HasSubstr("no segment numbered 8"));
  EXPECT_THAT(answer({RingKind::iteration, 0, segment, 32}), HasSubstr("does not lie in"));
  EXPECT_THAT(answer({RingKind::iteration, 0, segment, 1ull << 40}), HasSubstr("does not lie in"));
  EXPECT_THAT(answer({RingKind::iteration, 0, segment, UINT64_MAX - 63}),
              HasSubstr("does not lie in"));
  EXPECT_THAT(answer({RingKind::write_state, 0, segment, UINT64_MAX - 63}),
              HasSubstr("does not lie in"));
  const auto state = [&](StateHeader header, StateEntry entry) {
    std::memcpy(client.segment(), &header, sizeof(header));
    std::memcpy(client.segment() + sizeof(header), &entry, sizeof(entry));
    return answer({RingKind::write_state, 0, segment, 0});
  };
  EXPECT_THAT(state({2, 0, 0}, {}), HasSubstr("2 slots are named"));
  EXPECT_THAT(state({UINT32_MAX, 0, 0}, {}), HasSubstr("slots are named"));
  EXPECT_THAT(state({1, 0, 0}, {.slot = 1, .reserved = 0, .bytes = 64, .offset = 64}),
              HasSubstr("none numbered 1"));
  EXPECT_THAT(state({1, 0, 0}, {.slot = 0, .reserved = 0, .bytes = 63, .offset = 64}),
              HasSubstr("has 64 bytes"));
  EXPECT_THAT(state({1, 0, 0}, {.slot = 0, .reserved = 0, .bytes = 64, .offset = UINT64_MAX - 8}),
              HasSubstr("does not lie in"));
  EXPECT_THAT(state({0, 1, UINT64_MAX - 64}, {}), HasSubstr("random state"));
  EXPECT_THAT(state({0, 2, 64}, {}), HasSubstr("random state"));
  EXPECT_THAT(client.run(1).value(), Each(2.0F)) << "nothing of it did anything";
}

TEST(WorkerProcess, ManyJobsOfManyUsersShareTwoLanes) {
  WorkerRig rig;
  rig.start();
  std::vector<std::unique_ptr<ProcessJob>> jobs;
  std::vector<std::unique_ptr<ProcessClient>> clients;
  for (uint32_t i = 0; i < 6; ++i) {
    ProcessJob::Form form = adding("job " + std::to_string(i));
    form.user = i % 3;
    jobs.push_back(std::make_unique<ProcessJob>(rig, std::move(form)));
    clients.push_back(std::make_unique<ProcessClient>(*jobs.back()));
  }
  for (int round = 1; round <= 20; ++round) {
    std::vector<ProcessClient::Handle> pending;
    for (const auto& client : clients) pending.push_back(client->submit(1));
    for (size_t i = 0; i < clients.size(); ++i) {
      EXPECT_TRUE(clients[i]->wait(pending[i]));
      EXPECT_THAT(clients[i]->output(), Each(2.0F * static_cast<float>(round)));
    }
  }
}

}  // namespace
}  // namespace laneway::service
