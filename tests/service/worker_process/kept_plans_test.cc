// Shows that what a worker learnt about its jobs' memory outlives it: its successor runs by the
// plans, so jobs need no more memory than they had; and that a successor believes no plan that is
// none. Each with a real worker that is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "service/journal/recovery_memory.h"
#include "tests/service/tiny_graphs.h"
#include "tests/service/worker_process/process_client.h"

namespace laneway::service {
namespace {

using testing::ProcessClient;
using testing::ProcessJob;
using testing::WorkerRig;

// An iteration's tensors have 1 MiB each; two of three are alive together. A probe wants an eighth
// and 256 KiB more than the plan's 2 MiB.
constexpr int64_t kCount = 1 << 18;
const Bytes kImage = mib(1);
const Bytes kPlanned = mib(2);
const Bytes kProbe = mib(2) + kib(512);

ProcessJob::Form adding(const std::string& name, int64_t count = kCount) {
  return {.name = name,
          .user = 1,
          .slots = testing::adding_slots(count),
          .graph = testing::adding_graph(count),
          .initial = {}};
}

nlohmann::json graph_report(WorkerRig& rig, const ProcessJob& job, size_t graph = 0) {
  wire::to_worker::JobReport question;
  question.job = job.id().value();
  const auto answer = rig.ask(question);
  const auto report = nlohmann::json::parse(std::get<wire::from_worker::JobText>(answer).text);
  return report.at("graphs").at(graph);
}

// What a job had learnt is kept when its next iteration is answered.
void learn(ProcessClient& client, uint32_t graph = 0) {
  ASSERT_TRUE(client.run(1, graph).ok());
  ASSERT_TRUE(client.run(1, graph).ok());
}

lanes::JobStatus status_of(WorkerRig& rig, const ProcessJob& job) {
  for (const lanes::JobStatus& status : rig.snapshot().jobs) {
    if (status.id == job.id()) return status;
  }
  return {};
}

TEST(KeptPlans, ASuccessorRunsByThePlanOfItsPredecessor) {
  WorkerRig rig;
  rig.start();
  ProcessJob job(rig, adding("learnt"));
  ProcessClient client(job);
  learn(client);
  const auto before = graph_report(rig, job);
  ASSERT_EQ(before.at("probes"), 1);
  rig.kill();
  rig.start();
  EXPECT_EQ(status_of(rig, job).ephemeral, kPlanned);
  EXPECT_FLOAT_EQ(client.run(1).value().front(), 6);
  const auto after = graph_report(rig, job);
  EXPECT_EQ(after.at("iterations"), 1);
  EXPECT_EQ(after.at("probes"), 0);
  EXPECT_EQ(after.at("off_tape_count"), 0);
  EXPECT_EQ(after.at("planned_peak_bytes"), before.at("planned_peak_bytes"));
  EXPECT_EQ(after.at("bound_bytes"), before.at("bound_bytes"));
}

// The pool is full to the last byte when both are planned: had a successor to probe, it would find
// no room for what a probe wants, and the two were held for good.
TEST(KeptPlans, TwoJobsThatFillThePoolGoOnAfterTheWorkersDeath) {
  WorkerRig rig(kImage * 2 + kPlanned + kProbe);
  rig.start();
  ProcessJob first(rig, adding("first"));
  ProcessClient a(first);
  learn(a);
  ProcessJob second(rig, adding("second"));
  ProcessClient b(second);
  learn(b);
  // What was left of the second one's probe.
  ProcessJob third(rig, adding("third", (kProbe - kPlanned).count() / 4));
  ProcessClient c(third);
  learn(c);
  EXPECT_EQ(rig.snapshot().largest_free, Bytes());
  rig.kill();
  rig.start();
  for (const ProcessJob* job : {&first, &second}) {
    EXPECT_EQ(status_of(rig, *job).ephemeral, kPlanned);
    EXPECT_EQ(status_of(rig, *job).reason.code, lanes::ReasonCode::none);
  }
  EXPECT_FLOAT_EQ(a.run(1).value().front(), 6);
  EXPECT_FLOAT_EQ(b.run(1).value().front(), 6);
  EXPECT_FLOAT_EQ(c.run(1).value().front(), 6);
}

// Of three equal jobs the first is measured and over, the second ran by its plan, and the third has
// not run: a successor measures none of them.
TEST(KeptPlans, EqualJobsOfASuccessorRunByThePlanThatOneOfThemMeasured) {
  WorkerRig rig;
  rig.start();
  ProcessJob first(rig, adding("first"));
  ProcessClient a(first);
  learn(a);
  ProcessJob second(rig, adding("second"));
  ProcessClient b(second);
  learn(b);
  ASSERT_EQ(graph_report(rig, second).at("probes"), 0);
  ProcessJob third(rig, adding("third"));
  ProcessClient c(third);
  first.close();
  rig.kill();
  rig.start();
  EXPECT_EQ(status_of(rig, second).ephemeral, kPlanned);
  EXPECT_EQ(status_of(rig, third).ephemeral, kPlanned);
  EXPECT_FLOAT_EQ(b.run(1).value().front(), 6);
  EXPECT_FLOAT_EQ(c.run(1).value().front(), 2);
  for (const ProcessJob* job : {&second, &third}) {
    const auto report = graph_report(rig, *job);
    EXPECT_EQ(report.at("probes"), 0);
    EXPECT_EQ(report.at("off_tape_count"), 0);
    EXPECT_EQ(report.at("shared").at("jobs"), 2);
  }
}

TEST(KeptPlans, EachGraphHasItsOwnAndADroppedOneLeavesNone) {
  WorkerRig rig;
  rig.start();
  ProcessJob job(rig, adding("several"));
  const uint32_t reading = job.add_graph(testing::reading_graph(kCount));
  ProcessClient client(job);
  learn(client, 0);
  learn(client, reading);
  rig.kill();
  rig.start();
  ASSERT_TRUE(client.run(1, 0).ok());
  ASSERT_TRUE(client.run(1, reading).ok());
  EXPECT_EQ(graph_report(rig, job, 0).at("probes"), 0);
  EXPECT_EQ(graph_report(rig, job, 1).at("probes"), 0);
  wire::to_worker::DropGraph drop;
  drop.job = job.id().value();
  drop.number = reading;
  ASSERT_TRUE(std::get<wire::from_worker::Reply>(rig.ask(drop)).ok);
  const auto kept = [&] {
    auto memory =
        RecoveryMemory::map(rig.recovery_memory().descriptor(), rig.recovery_memory().size());
    EXPECT_TRUE(memory.value()->take_over().ok());
    std::vector<uint32_t> numbers;
    for (const PieceKey& key : memory.value()->keys()) {
      if (key.kind == PieceKind::plan) numbers.push_back(key.number);
    }
    return numbers;
  };
  rig.kill();
  EXPECT_THAT(kept(), ::testing::ElementsAre(0));
  rig.start();
  job.close();
  rig.kill();
  EXPECT_THAT(kept(), ::testing::IsEmpty());
}

TEST(KeptPlans, WhatIsNoPlanOfTheGraphIsNotBelieved) {
  WorkerRig rig;
  rig.start();
  ProcessJob job(rig, adding("damaged"));
  ProcessClient client(job);
  learn(client);
  rig.kill();
  {
    auto memory =
        RecoveryMemory::map(rig.recovery_memory().descriptor(), rig.recovery_memory().size());
    ASSERT_TRUE(memory.value()->take_over().ok());
    const auto piece =
        memory.value()->find({.kind = PieceKind::plan, .owner = job.id().value(), .number = 0});
    ASSERT_FALSE(piece.empty());
    std::fill(piece.begin() + 64, piece.begin() + 256, std::byte{0x5a});
  }
  rig.start();
  EXPECT_FLOAT_EQ(client.run(1).value().front(), 6);
  ASSERT_TRUE(client.run(1).ok());  // by now the first one is in the books
  EXPECT_EQ(graph_report(rig, job).at("probes"), 1);
}

// A probe's estimate is clamped to what there can be, which does not include the reserve.
TEST(Reserve, IsNoRoomForAProbe) {
  const Bytes reserve = mib(4);
  WorkerRig rig(kImage + kPlanned + kib(128) + reserve, 1, reserve);
  rig.start();
  ProcessJob job(rig, adding("tight"));
  ASSERT_FALSE(job.refused());
  ProcessClient client(job);
  EXPECT_FLOAT_EQ(client.run(1).value().front(), 2);
}

}  // namespace
}  // namespace laneway::service
