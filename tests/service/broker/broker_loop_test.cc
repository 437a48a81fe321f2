// The whole broker over real sockets (broker_loop_rig.h). The broker dies between requests, and
// again before their answers came.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "service/wire/codec.h"
#include "service/wire/held_counters.h"
#include "tests/service/broker/broker_loop_rig.h"

namespace laneway::service {
namespace {

using ::testing::HasSubstr;

TEST_F(BrokerLoop, AClientsJobLivesThroughBrokersThatDieAndEndsWithItsClient) {
  join();
  send_descriptor_message(2);
  const auto created = std::get<wire::JobCreated>(ask(job("digits"), 2));
  EXPECT_EQ(created.job, 1u);
  EXPECT_EQ(take_frame().fds.size(), 3u) << "ring, eventfd, pipe";
  start();
  wire::WaitJob wait;
  wait.job = 1;
  wait.timeout_ms = 1000;
  EXPECT_TRUE(std::holds_alternative<wire::JobPlaced>(ask(wait, 3)));
  send_descriptor_message(4);
  wire::AddGraph graph;
  graph.job = 1;
  send(graph, 4);
  crank_until([&] { return worker_.jobs.at(JobId(1)).graphs.size() == 2; });
  start();
  EXPECT_EQ(std::get<wire::GraphAdded>(answer(graph, 4)).graph.number, 1u);
  lifeline_ = Channel();
  crank_until([&] { return worker_.jobs.empty(); });
  crank_until([&] {
    return std::none_of(held_.begin(), held_.end(),
                        [](const Entry& entry) { return entry.key == "j/1"; });
  });
}

TEST_F(BrokerLoop, TellsItsStateTakesAPolicyAndIsShutDown) {
  join();
  send_descriptor_message(2);
  ask(job("digits"), 2);
  const auto journal = Journal::map(journal_.get()).value();
  JobJournal written = journal->job(0);
  written.open(JobId(1), {});
  written.begin({.link = 1, .sequence = 0});
  written.end({}, /*counts=*/true, milliseconds(10));
  const std::string document = status(3);
  EXPECT_THAT(document, HasSubstr("\"iterations\":1,")) << "as the journal has it, in an open turn";
  EXPECT_THAT(document, HasSubstr("\"name\":\"digits\""));
  EXPECT_THAT(document, HasSubstr("{\"pid\":77,\"role\":\"active\",\"state\":\"ready\","));
  wire::SetPolicy policy;
  policy.policy = "no such thing";
  EXPECT_TRUE(std::holds_alternative<wire::Failure>(ask(policy, 4)));
  policy.policy = "srtf";
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(policy, 5)));
  start();
  EXPECT_THAT(status(6), HasSubstr("\"policy\":\"srtf\""));
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(wire::Shutdown{}, 7)));
  crank_until([&] { return shutdown_requested_; });
  tell(wire::supervisor_to_broker::Stop{}, {});
  crank_until([&] { return stopped_; });
  EXPECT_TRUE(worker_.jobs.empty());
  EXPECT_FALSE(broker_->step(Duration()));
  EXPECT_TRUE(broker_->result().ok());
}

TEST_F(BrokerLoop, APolicyFromOutsideIsToldOfTheJobsAndGivenUpForNonsense) {
  policy_ = "/nowhere/mine:key=value";
  start();
  join();
  EXPECT_THAT(status(2), HasSubstr("\"policy_process\":{\"state\":\"stopped\",\"pid\":null,"
                                   "\"reason\":\"it is being started\"}"));
  auto ends = testing::PolicyPeer::pair();
  testing::PolicyPeer& peer = ends.first;
  std::vector<Descriptor> fds;
  fds.push_back(std::move(ends.second));
  tell(wire::supervisor_to_broker::PolicyNews{.pid = 55, .reason = "it was late"}, std::move(fds));
  policy_peer_ = &peer;
  crank_until([&] { return peer.was_greeted(); });
  peer.say(plugin::hello());
  send_descriptor_message(3);
  ask(job("digits"), 3);
  crank_until([&] { return peer.jobs() > 0; });
  EXPECT_THAT(status(4), HasSubstr("\"policy_process\":{\"state\":\"running\",\"pid\":55,"
                                   "\"reason\":\"it was late\"}"));
  // Another core, for another worker: it is told all again.
  const int told = peer.jobs();
  worker_.restart();
  wire::supervisor_to_broker::WorkerDown down;
  down.pid = 77;
  tell(down, {});
  connect_worker();
  crank_until([&] { return peer.jobs() > told; });
  policy_peer_ = nullptr;
  const std::string line = "a line that was printed";
  peer.say(std::as_bytes(std::span(line)));
  crank_until([&] { return !policy_failed_.empty(); });
  EXPECT_THAT(policy_failed_, HasSubstr("descriptor 3"));
  EXPECT_THAT(status(5), HasSubstr("\"policy_process\":{\"state\":\"stopped\",\"pid\":null"));
}

TEST_F(BrokerLoop, AFileOfAPolicyIsTakenByItsAbsolutePathAndChecked) {
  join();
  wire::SetPolicy policy;
  policy.policy = "./mine.py";
  EXPECT_THAT(std::get<wire::Failure>(ask(policy, 2)).message, HasSubstr("absolute path"));
  policy.policy = "/nowhere/mine.py";
  EXPECT_THAT(std::get<wire::Failure>(ask(policy, 3)).message, HasSubstr("/nowhere/mine.py"));
  EXPECT_THAT(status(4), HasSubstr("\"policy_process\":null"));
}

TEST_F(BrokerLoop, JobsThatAreOverAreShownToThoseWhoAskForThem) {
  join();
  send_descriptor_message(2);
  ask(job("digits"), 2);
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(wire::CloseJob{.job = 1}, 3)));
  const auto all = std::get<wire::StatusReply>(ask(wire::ServiceStatus{}, 4));
  ASSERT_EQ(all.core.ended.size(), 1u);
  EXPECT_EQ(all.core.ended[0].options.name, "digits");
  ASSERT_EQ(all.service.jobs.size(), 1u) << "whose it was";
  const auto living = std::get<wire::StatusReply>(ask(wire::ServiceStatus{.with_ended = false}, 5));
  EXPECT_TRUE(living.core.ended.empty());
  EXPECT_TRUE(living.service.jobs.empty());
}

TEST_F(BrokerLoop, WhatWasCountedOutlivesWorkersAndBrokers) {
  join();
  send_descriptor_message(2);
  ask(job("digits"), 2);
  wire::CreateJob large = job("large");
  large.spec.slots = {{"weight", SlotKind::parameter, 640'000}};
  send_descriptor_message(3);
  ask(large, 3);
  uint64_t number = 3;
  const auto counted = [this, &number] {  // one number twice is one request
    return std::get<wire::StatusReply>(ask(wire::ServiceStatus{}, ++number));
  };
  const auto refused = [](const wire::StatusReply& status) {
    const auto code = static_cast<size_t>(lanes::ReasonCode::larger_than_pool);
    return status.core.counters.refusals.at(code);
  };
  EXPECT_EQ(refused(counted()), 1u);
  worker_.restart();
  wire::supervisor_to_broker::WorkerDown down;
  down.pid = 77;
  tell(down, {});
  connect_worker();
  crank_until([&] { return counted().core.worker_up; });
  wire::StatusReply status = counted();
  EXPECT_EQ(refused(status), 1u) << "by the core before";
  ASSERT_TRUE(status.service.counters);
  EXPECT_EQ(status.service.counters->active_deaths, 1u);
  EXPECT_EQ(status.service.counters->broker_deaths, 0u);
  crank_until([&] {
    return std::any_of(held_.begin(), held_.end(), [](const Entry& entry) {
      if (entry.key != BrokerCounters::kKey) return false;
      const auto note = std::as_bytes(std::span(entry.note));
      return wire::decode_message<wire::held::Counters>(note).value().service.active_deaths == 1;
    });
  });
  start();
  status = counted();
  EXPECT_EQ(refused(status), 1u) << "by a core of the broker before";
  EXPECT_EQ(status.service.counters->active_deaths, 1u);
  EXPECT_EQ(status.service.counters->broker_deaths, 1u);
}

TEST_F(BrokerLoop, ThePoolKeepsItsNewSizeUnderAnotherBroker) {
  join();
  EXPECT_THAT(std::get<wire::Failure>(ask(wire::SetPool{.bytes = 64'001}, 2)).message,
              HasSubstr("more than the service was started with: give at most 62.5 KiB"));
  EXPECT_TRUE(std::holds_alternative<wire::Failure>(ask(wire::SetPool{.bytes = UINT64_MAX}, 3)));
  EXPECT_THAT(std::get<wire::Failure>(ask(wire::SetPool{.bytes = 0}, 4)).message,
              HasSubstr("leaves nothing for jobs"));
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(wire::SetPool{.bytes = 32'000}, 5)));
  const char* const smaller =
      "{\"capacity_bytes\":32000,\"wanted_bytes\":32000,\"made_bytes\":64000,";
  EXPECT_THAT(status(6), HasSubstr(smaller));
  start();
  EXPECT_THAT(status(7), HasSubstr(smaller));
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(wire::SetPool{.bytes = 64'000}, 8)));
  start();
  EXPECT_THAT(status(9), HasSubstr("{\"capacity_bytes\":64000,\"wanted_bytes\":64000,"));
}

TEST_F(BrokerLoop, LimitsAreSeenAndStandAsTheyWereUnderAnotherBroker) {
  join();
  send_descriptor_message(2);
  ask(job("digits"), 2);
  const auto used = [this](uint64_t number) {
    std::map<std::string, std::optional<uint64_t>> all;
    const auto reply = std::get<wire::StatusReply>(ask(wire::ServiceStatus{}, number));
    for (const auto& limit : reply.service.limits) {
      all[limit.name] = limit.used;
    }
    return all;
  };
  const auto before = used(3);
  EXPECT_EQ(before.at("sessions"), 1u);
  EXPECT_EQ(before.at("jobs"), 1u);
  EXPECT_GT(before.at("held_bytes"), 0u);
  EXPECT_GT(before.at("descriptors"), 0u);
  EXPECT_EQ(before.at("graph_bytes"), std::nullopt) << "workers count it";
  start();
  EXPECT_EQ(used(4), before);
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(wire::CloseJob{.job = 1}, 5)));
  const auto after = used(6);
  EXPECT_EQ(after.at("jobs"), 0u);
  EXPECT_EQ(after.at("held_bytes"), 0u);
}

TEST_F(BrokerLoop, WhatTheSupervisorHasNoRoomForIsRefusedToItsClient) {
  join();
  no_room_ = {"j/1"};
  send_descriptor_message(2);
  EXPECT_THAT(std::get<wire::Failure>(ask(job("unlucky"), 2)).message,
              HasSubstr("no room for j/1"));
  no_room_.clear();
  send_descriptor_message(3);
  EXPECT_EQ(std::get<wire::JobCreated>(ask(job("lucky"), 3)).job, 2u);
  start();
  const auto left = std::get<wire::StatusReply>(ask(wire::ServiceStatus{.with_ended = false}, 4));
  EXPECT_EQ(left.service.jobs.size(), 1u);
}

TEST_F(BrokerLoop, EndsWhenItsSupervisorIsGoneOrSpeaksNonsense) {
  channel_ = Channel();
  while (broker_->step(milliseconds(1))) {
  }
  EXPECT_FALSE(broker_->result().ok());
  auto ends = Channel::pair();
  Broker second(std::move(ends.value().second), clock_);
  const std::vector<std::byte> nonsense(50, std::byte{7});
  ASSERT_TRUE(ends.value().first.send(nonsense).ok());
  while (second.step(milliseconds(1))) {
  }
  EXPECT_FALSE(second.result().ok());
}

TEST_F(BrokerLoop, AJobWaitsForAWorkerThatDied) {
  join();
  worker_.restart();
  wire::supervisor_to_broker::WorkerDown down;
  down.pid = 77;
  tell(down, {});
  send_descriptor_message(2);
  send(job("digits"), 2);
  crank_until([&] {
    return std::any_of(held_.begin(), held_.end(),
                       [](const Entry& entry) { return entry.key == "j/1"; });
  });
  connect_worker();
  EXPECT_TRUE(std::holds_alternative<wire::JobCreated>(answer(job("digits"), 2)));
}

}  // namespace
}  // namespace laneway::service
