// Shows what a client of good will gets: a session, its requests handed on once with their
// descriptors, answers again when it asks again, an end that is noticed however it ends; and that
// all of that goes on with a successor of the broker, at whatever step the one before died.
#include "service/broker/gateway.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "service/broker/limits.h"
#include "tests/service/broker/gateway_rig.h"

namespace laneway::service {
namespace {

using laneway::testing::GatewayRig;
using laneway::testing::RawClient;
using laneway::testing::some_descriptors;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;

class GatewayTest : public ::testing::Test {
 protected:
  // Until the sink was given `count` requests.
  void expect_requests(size_t count) {
    rig.crank_until([&] { return rig.sink.requests.size() >= count; });
    EXPECT_THAT(rig.sink.requests, SizeIs(count));
  }
  bool held(const std::string& key) const { return rig.holder.entries.contains(key); }

  GatewayRig rig;
};

TEST_F(GatewayTest, AClientIsWelcomedAndKnownByItsProcess) {
  RawClient client(rig);
  client.join();
  EXPECT_EQ(client.welcome.device, "host");
  EXPECT_EQ(client.welcome.max_in_flight, 64u);
  EXPECT_EQ(client.welcome.kernels, "cuda");
  ASSERT_THAT(rig.sink.opened, SizeIs(1));
  const Session& session = rig.sink.opened.front();
  EXPECT_EQ(session.id.value(), client.welcome.session);
  EXPECT_EQ(session.pid, getpid());
  EXPECT_EQ(session.uid, getuid());
  EXPECT_EQ(session.name, "client");
  EXPECT_THAT(rig.gateway->sessions(), SizeIs(1));
  const auto& entry = rig.holder.entries.at("s/" + std::to_string(client.welcome.session));
  EXPECT_THAT(entry.fds, SizeIs(1));
}

TEST_F(GatewayTest, AClientOfAnotherReleaseWithTheSameMessagesIsWelcomed) {
  RawClient client(rig);
  client.send(wire::Hello{.client_version = "99.0", .program = "later"}, 1);
  const wire::AnyReply reply = client.next_reply();
  const auto* welcome = std::get_if<wire::Welcome>(&reply);
  ASSERT_NE(welcome, nullptr);
  EXPECT_EQ(welcome->server_version, "0.test");
}

TEST_F(GatewayTest, SessionsHaveTokensAndNumbersOfTheirOwn) {
  RawClient one(rig), two(rig);
  one.join();
  two.join();
  EXPECT_NE(one.welcome.session, two.welcome.session);
  EXPECT_NE(one.welcome.token, two.welcome.token);
}

TEST_F(GatewayTest, ARequestIsHandedOnWithItsDescriptorsWhicheverComesFirst) {
  RawClient client(rig);
  client.join();
  client.send_descriptor_message(2, 1);
  client.send(wire::AddGraph{.job = 5}, 2);
  expect_requests(1);
  EXPECT_THAT(rig.sink.requests[0].fds, SizeIs(1));
  rig.gateway->reply(rig.sink.requests[0].session, 2, wire::Done{});
  client.next_reply();
  wire::CreateJob create;
  create.spec.has_initial = true;
  client.send(create, 3);
  rig.crank_until([&] {
    return rig.gateway->next_wakeup() == rig.clock.now() + limits::kDescriptorMessagePatience;
  });
  EXPECT_THAT(rig.sink.requests, SizeIs(1));  // it waits for its descriptor message
  client.send_descriptor_message(3, 2);
  expect_requests(2);
  EXPECT_THAT(rig.sink.requests[1].fds, SizeIs(2));
}

TEST_F(GatewayTest, AnAnswersDescriptorsComeBeforeIt) {
  RawClient client(rig);
  client.join();
  client.send_descriptor_message(2, 1);
  client.send(wire::CreateJob{}, 2);
  expect_requests(1);
  EXPECT_TRUE(held("p/1/2"));
  wire::JobCreated created;
  created.job = 9;
  rig.gateway->reply(SessionId(1), 2, created, some_descriptors(3));
  EXPECT_FALSE(held("p/1/2"));
  const Frame frame = *client.lifeline.receive().value();  // without a further turn of the gateway
  EXPECT_THAT(frame.fds, SizeIs(3));
  EXPECT_EQ(wire::decode_message<wire::DescriptorMessage>(frame.bytes).value().request, 2u);
  EXPECT_EQ(std::get<wire::JobCreated>(client.next_reply()).job, 9u);
}

TEST_F(GatewayTest, ARequestThatIsRepeatedIsWorkedOnOnceAndAnsweredAgain) {
  RawClient client(rig);
  client.join();
  client.send(wire::ServiceStatus{}, 2);
  client.send(wire::ServiceStatus{}, 2);
  rig.crank_until([&] { return rig.gateway->counters().repeated == 1; });
  expect_requests(1);
  rig.gateway->reply(SessionId(1), 2, wire::Text{"first"});
  rig.gateway->reply(SessionId(1), 2, wire::Text{"second"});  // was answered: nothing happens
  EXPECT_EQ(std::get<wire::Text>(client.next_reply()).text, "first");
  EXPECT_EQ(std::get<wire::Text>(client.ask(wire::ServiceStatus{}, 2)).text, "first");
  EXPECT_THAT(rig.sink.requests, SizeIs(1));
  // The next one makes the one before stale.
  client.send(wire::ServiceStatus{}, 3);
  expect_requests(2);
  client.send(wire::ServiceStatus{}, 2);
  rig.crank_until([&] { return rig.gateway->counters().repeated == 3; });
  EXPECT_THAT(rig.sink.requests, SizeIs(2));
}

TEST_F(GatewayTest, AnAnswerWithDescriptorsIsMadeAgainByTheSink) {
  RawClient client(rig);
  client.join();
  for (size_t time = 1; time <= 2; ++time) {
    client.send_descriptor_message(2, 1);
    client.send(wire::CreateJob{}, 2);
    expect_requests(time);
    EXPECT_THAT(rig.sink.requests.back().fds, SizeIs(1));
    rig.gateway->reply(SessionId(1), 2, wire::JobCreated{}, some_descriptors(3));
    EXPECT_TRUE(std::holds_alternative<wire::JobCreated>(client.next_reply()));
  }
}

TEST_F(GatewayTest, DescriptorsThatComeTwiceAreDropped) {
  RawClient client(rig);
  client.join();
  client.send_descriptor_message(2, 1);
  client.send_descriptor_message(2, 1);
  rig.crank_until([&] { return rig.gateway->counters().repeated == 1; });
  client.send(wire::AddGraph{}, 2);
  expect_requests(1);
  EXPECT_THAT(rig.sink.requests[0].fds, SizeIs(1));
}

TEST_F(GatewayTest, ByeEndsTheSession) {
  RawClient client(rig);
  client.join();
  EXPECT_TRUE(std::holds_alternative<wire::Done>(client.ask(wire::Bye{}, 2)));
  EXPECT_THAT(rig.sink.ended, ElementsAre(Pair(SessionId(1), false)));
  EXPECT_FALSE(held("s/1"));
  EXPECT_FALSE(client.next_frame().has_value());  // hung up
  EXPECT_EQ(std::get<wire::Failure>(client.ask(wire::ServiceStatus{}, 3)).code,
            ErrorCode::unavailable);
}

TEST_F(GatewayTest, AClientThatDiesIsNoticedAndForgotten) {
  RawClient client(rig);
  client.join();
  client.send_descriptor_message(2, 1);
  client.send(wire::AddGraph{}, 2);
  expect_requests(1);
  client.lifeline = Channel();
  rig.crank_until([&] { return !rig.sink.ended.empty(); });
  EXPECT_THAT(rig.sink.ended, ElementsAre(Pair(SessionId(1), true)));
  EXPECT_FALSE(held("s/1"));
  EXPECT_FALSE(held("p/1/2"));
  rig.gateway->reply(SessionId(1), 2, wire::Done{});  // to nobody: nothing happens
}

// ---- a successor

TEST_F(GatewayTest, ASessionGoesOnWithTheNextBroker) {
  RawClient client(rig);
  client.join();
  rig.restart();
  ASSERT_THAT(rig.gateway->sessions(), SizeIs(1));
  EXPECT_EQ(rig.gateway->sessions().front().name, "client");
  EXPECT_THAT(rig.sink.opened, SizeIs(1));  // not told again
  client.send(wire::ServiceStatus{}, 2);
  expect_requests(1);
  EXPECT_EQ(rig.sink.requests[0].session, SessionId(1));
  client.lifeline = Channel();
  rig.crank_until([&] { return !rig.sink.ended.empty(); });
}

TEST_F(GatewayTest, NumbersOfSessionsAreNotGivenAgain) {
  {
    RawClient client(rig);
    client.join();
    client.ask(wire::Bye{}, 2);
  }
  rig.restart();
  RawClient client(rig);
  EXPECT_GT(client.hello().session, 1u);
}

TEST_F(GatewayTest, AClientThatDiedWhileNobodyListenedIsNoticed) {
  RawClient client(rig);
  client.join();
  client.lifeline = Channel();
  rig.restart();
  rig.crank_until([&] { return !rig.sink.ended.empty(); });
  EXPECT_FALSE(held("s/1"));
}

TEST_F(GatewayTest, ABrokerThatDiesBetweenHelloAndLifelineLosesNothing) {
  RawClient client(rig);
  client.hello();
  rig.restart();
  client.open_lifeline();
  const auto ready = client.say_lifeline_hello({client.welcome.session, client.welcome.token});
  EXPECT_TRUE(std::holds_alternative<wire::LifelineReady>(*ready));
}

TEST_F(GatewayTest, ABrokerThatDiesBeforeItSaysReadyIsAskedAgain) {
  RawClient client(rig);
  client.join();
  rig.restart();  // as if Ready had not been heard
  const auto ready = client.say_lifeline_hello({client.welcome.session, client.welcome.token});
  EXPECT_TRUE(std::holds_alternative<wire::LifelineReady>(*ready));
  EXPECT_THAT(rig.gateway->sessions(), SizeIs(1));
}

TEST_F(GatewayTest, DescriptorsThatCameAreThereForTheRepeatedRequest) {
  RawClient client(rig);
  client.join();
  client.send_descriptor_message(2, 1);
  client.send(wire::AddGraph{}, 2);
  expect_requests(1);
  rig.restart();
  rig.sink.requests.clear();
  client.send(wire::AddGraph{}, 2);  // the descriptor message is not sent again
  expect_requests(1);
  EXPECT_THAT(rig.sink.requests[0].fds, SizeIs(1));
  rig.gateway->reply(SessionId(1), 2, wire::Done{});
  EXPECT_FALSE(held("p/1/2"));
}

TEST_F(GatewayTest, WhatIsHeldAndMakesNoSenseIsReleased) {
  for (const char* key : {"s/7", "p/1/2", "p/1", "s/"}) {
    rig.holder.hold(key, {std::byte{1}}, {});
    rig.gateway->restore(key, {std::byte{1}}, {});
    EXPECT_FALSE(held(key)) << key;
  }
  EXPECT_THAT(rig.gateway->sessions(), SizeIs(0));
}

}  // namespace
}  // namespace laneway::service
