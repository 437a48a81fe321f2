// Shows that a client which breaks the rules costs itself and nobody else: garbage, truncated,
// oversized and other versions' messages on both sockets, another's token, a lifeline of another
// session or of another process, one that never comes, and every limit. After each of them a client
// of good will is served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "service/broker/limits.h"
#include "service/transport/unix_socket.h"
#include "tests/service/broker/gateway_rig.h"
#include "tests/support/seed.h"

namespace laneway::service {
namespace {

using laneway::testing::GatewayRig;
using laneway::testing::RawClient;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class GatewayAbuse : public ::testing::Test {
 protected:
  void TearDown() override {
    RawClient client(rig);
    client.join();
    const size_t before = rig.sink.requests.size();
    client.send(wire::ServiceStatus{}, 2);
    rig.crank_until([&] { return rig.sink.requests.size() > before; });
  }
  void expect_malformed(uint64_t count) {
    rig.crank_until([&] { return rig.gateway->counters().malformed >= count; });
    EXPECT_EQ(rig.gateway->counters().malformed, count);
  }
  static std::string message_of(const wire::AnyReply& reply) {
    const auto* failure = std::get_if<wire::Failure>(&reply);
    return failure == nullptr ? "no failure" : failure->message;
  }
  static std::string message_of(const std::optional<wire::AnyLifeline>& answer) {
    const auto* failure = answer ? std::get_if<wire::Failure>(&*answer) : nullptr;
    return failure == nullptr ? "no failure" : failure->message;
  }

  GatewayRig rig;
};

TEST_F(GatewayAbuse, BytesThatAreNoMessagesAreCountedInSilence) {
  Random random(laneway::testing::seed_from_environment(95));
  RawClient client(rig);
  for (int i = 0; i < 50; ++i) {
    std::vector<std::byte> bytes(random.below(200));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    client.send_bytes(bytes);
  }
  expect_malformed(50);
}

TEST_F(GatewayAbuse, EveryTruncationOfARequestIsRefused) {
  RawClient client(rig);
  client.join();
  const std::vector<std::byte> whole = wire::encode(wire::KillJob{"digits"}, client.envelope(2));
  for (size_t size = 0; size < whole.size(); ++size) {
    client.send_bytes({whole.begin(), whole.begin() + static_cast<long>(size)});
  }
  expect_malformed(whole.size());
  EXPECT_THAT(rig.sink.requests, SizeIs(0));
  EXPECT_THAT(message_of(client.next_reply()), HasSubstr("KillJob"));  // those with a header
}

TEST_F(GatewayAbuse, AnotherVersionIsToldBothNumbers) {
  RawClient client(rig);
  client.join();
  std::vector<std::byte> bytes = wire::encode(wire::KillJob{"digits"}, client.envelope(2));
  bytes.at(8) = std::byte{9};
  client.send_bytes(bytes);
  EXPECT_THAT(message_of(client.next_reply()),
              AllOf(HasSubstr("version 9 and this program speaks 1"), HasSubstr("Laneway 0.test")));
  bytes = wire::encode(wire::Hello{});
  bytes.at(4) = std::byte{9};
  client.send_bytes(bytes);
  EXPECT_THAT(
      message_of(client.next_reply()),
      AllOf(HasSubstr("protocol 9 and this program speaks 1"), HasSubstr("Laneway 0.test")));
  bytes = wire::encode(wire::Hello{}, {.request = 1, .token = {}});
  bytes.at(8) = std::byte{9};
  client.send_bytes(bytes);
  uint64_t number = 0;
  EXPECT_THAT(message_of(client.next_reply(&number)),
              AllOf(HasSubstr("message Hello has version 9 and this program speaks 1"),
                    HasSubstr("Laneway 0.test")));
  EXPECT_EQ(number, 1u);
  expect_malformed(3);
}

TEST_F(GatewayAbuse, RepliesAndOversizedRequestsAreRefused) {
  RawClient client(rig);
  client.join();
  client.send_bytes(wire::encode(wire::Done{}, client.envelope(2)));
  EXPECT_THAT(message_of(client.next_reply()), HasSubstr("not expected"));
  EXPECT_THAT(message_of(client.ask(wire::KillJob{std::string(100'000, 'x')}, 2)),
              HasSubstr("the limit is 8192"));
  EXPECT_THAT(message_of(client.ask(wire::Hello{}, 2)), HasSubstr("said Hello before"));
}

TEST_F(GatewayAbuse, AWrongTokenIsNobody) {
  RawClient client(rig);
  client.join();
  client.welcome.token[3] ^= 1;
  EXPECT_THAT(message_of(client.ask(wire::ServiceStatus{}, 2)), HasSubstr("does not know"));
  EXPECT_THAT(rig.sink.requests, SizeIs(0));
}

TEST_F(GatewayAbuse, WithoutALifelineNothingIsTaken) {
  RawClient client(rig);
  client.hello();
  EXPECT_THAT(message_of(client.ask(wire::ServiceStatus{}, 2)), HasSubstr("not open yet"));
}

TEST_F(GatewayAbuse, ASessionWhoseLifelineNeverComesIsDropped) {
  RawClient client(rig);
  client.hello();
  EXPECT_TRUE(rig.holder.entries.contains("s/1"));
  rig.clock.advance(limits::kLifelinePatience);
  rig.crank_until([&] { return !rig.holder.entries.contains("s/1"); });
  EXPECT_THAT(rig.sink.ended, SizeIs(0));  // it never was
  EXPECT_THAT(message_of(client.ask(wire::Bye{}, 2)), HasSubstr("does not know"));
}

TEST_F(GatewayAbuse, ALifelineThatNeverSpeaksIsHungUpOn) {
  RawClient client(rig);
  client.open_lifeline();
  rig.crank_until(
      [&] { return rig.gateway->next_wakeup() == rig.clock.now() + limits::kLifelinePatience; });
  rig.clock.advance(limits::kLifelinePatience);
  EXPECT_FALSE(client.next_frame().has_value());
}

TEST_F(GatewayAbuse, DescriptorsThatNeverComeFailTheirRequest) {
  RawClient client(rig);
  client.join();
  client.send(wire::AddGraph{}, 2);
  rig.crank_until([&] {
    return rig.gateway->next_wakeup() == rig.clock.now() + limits::kDescriptorMessagePatience;
  });
  rig.clock.advance(limits::kDescriptorMessagePatience);
  EXPECT_THAT(message_of(client.next_reply()), HasSubstr("did not come"));
}

TEST_F(GatewayAbuse, TheWrongNumberOfDescriptorsIsRefused) {
  RawClient client(rig);
  client.join();
  client.send_descriptor_message(2, 2);
  EXPECT_THAT(message_of(client.ask(wire::AddGraph{}, 2)),
              HasSubstr("brings 1 descriptors and came with 2"));
}

TEST_F(GatewayAbuse, ALifelineWithAWrongTokenOrNumberIsRefused) {
  RawClient client(rig);
  client.hello();
  for (const uint64_t session : {client.welcome.session, client.welcome.session + 1}) {
    client.open_lifeline();
    wire::Token token = client.welcome.token;
    if (session == client.welcome.session) token[0] ^= 1;
    EXPECT_THAT(message_of(client.say_lifeline_hello({session, token})), HasSubstr("no session"));
    EXPECT_FALSE(client.next_frame().has_value());
  }
}

TEST_F(GatewayAbuse, ASecondLifelineIsRefused) {
  RawClient client(rig);
  client.join();
  const Channel first = std::move(client.lifeline);
  client.open_lifeline();
  EXPECT_THAT(message_of(client.say_lifeline_hello({client.welcome.session, client.welcome.token})),
              HasSubstr("has its lifeline already"));
  EXPECT_THAT(rig.gateway->sessions(), SizeIs(1));
}

TEST_F(GatewayAbuse, AnotherProcessWithTheTokenIsRefused) {
  // The child is forked first, while this process has one thread, and hears of the session later.
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  GatewayRig
      other;  // ZeroMQ's threads are not needed in the child: it speaks over the lifeline only
  const pid_t child = fork();
  if (child == 0) {
    wire::LifelineHello hello;
    if (read(told[0], &hello.session, sizeof(hello.session)) != sizeof(hello.session)) _exit(1);
    if (read(told[0], hello.token.data(), hello.token.size()) != 16) _exit(2);
    Result<Descriptor> socket = connect_unix(other.address->descriptor_path());
    if (!socket) _exit(3);
    Channel lifeline(std::move(socket).value());
    if (!lifeline.send(wire::encode(hello)).ok()) _exit(4);
    const Result<Frame> frame = lifeline.receive_wait(seconds(60));
    if (!frame) _exit(5);
    const auto answer = wire::decode<wire::AnyLifeline>(frame.value().bytes);
    const auto* failure = std::get_if<wire::Failure>(&answer.value());
    _exit(failure != nullptr && failure->message.find("another process") != std::string::npos ? 0
                                                                                              : 6);
  }
  RawClient client(other);
  client.hello();
  ASSERT_EQ(write(told[1], &client.welcome.session, 8), 8);
  ASSERT_EQ(write(told[1], client.welcome.token.data(), 16), 16);
  int status = -1;
  other.crank_until([&] { return waitpid(child, &status, WNOHANG) == child; });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(other.sink.opened, SizeIs(0));
  client.open_lifeline();
  const auto ready = client.say_lifeline_hello({client.welcome.session, client.welcome.token});
  EXPECT_TRUE(std::holds_alternative<wire::LifelineReady>(*ready));
  close(told[0]);
  close(told[1]);
}

TEST_F(GatewayAbuse, GarbageOnALifelineEndsItsSessionAlone) {
  RawClient good(rig), bad(rig);
  good.join();
  bad.join();
  const std::string garbage(64, '\xff');
  ASSERT_GT(::send(bad.lifeline.descriptor(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  rig.crank_until([&] { return !rig.sink.ended.empty(); });
  EXPECT_EQ(rig.sink.ended.front().first, SessionId(bad.welcome.session));
  EXPECT_THAT(rig.gateway->sessions(), SizeIs(1));
}

TEST_F(GatewayAbuse, AFrameThatIsNoDescriptorMessageEndsItsSession) {
  RawClient client(rig);
  client.join();
  ASSERT_TRUE(client.lifeline.send(wire::encode(wire::LifelineReady{})).ok());
  const std::optional<Frame> frame = client.next_frame();
  ASSERT_TRUE(frame.has_value());
  EXPECT_THAT(wire::decode_message<wire::Failure>(frame->bytes).value().message,
              HasSubstr("send descriptor messages"));
  EXPECT_THAT(rig.sink.ended, SizeIs(1));
}

TEST_F(GatewayAbuse, ALifelineThatIsNotReadIsBounded) {
  RawClient client(rig);
  client.join();
  for (uint64_t number = 2; rig.sink.ended.empty(); ++number) {
    ASSERT_LT(number, 100'000u);
    client.send_descriptor_message(number, 1);
    client.send(wire::CreateJob{}, number);
    const size_t before = rig.sink.requests.size();
    rig.crank_until([&] { return rig.sink.requests.size() > before || !rig.sink.ended.empty(); });
    rig.sink.requests.clear();
    rig.gateway->reply(SessionId(1), number, wire::JobCreated{},
                       laneway::testing::some_descriptors(3));
    if (rig.sink.ended.empty()) rig.gateway->handle_ready();
    (void)client.socket.receive(Duration());
  }
  EXPECT_TRUE(rig.sink.ended.front().second);
}

TEST_F(GatewayAbuse, DescriptorMessagesWithoutRequestsAreBounded) {
  RawClient client(rig);
  client.join();
  for (uint64_t number = 2; number < 2 + 3 * limits::kMaxDescriptorMessages; ++number) {
    client.send_descriptor_message(number, 1);
  }
  rig.crank_until(
      [&] { return rig.gateway->counters().repeated == 2 * limits::kMaxDescriptorMessages; });
  size_t messages = 0;
  for (const auto& [key, entry] : rig.holder.entries) messages += key.starts_with("p/") ? 1 : 0;
  EXPECT_EQ(messages, limits::kMaxDescriptorMessages);
  // A request behind them lets them go.
  client.send(wire::ServiceStatus{}, 100);
  rig.crank_until([&] { return !rig.sink.requests.empty(); });
  for (const auto& [key, entry] : rig.holder.entries) EXPECT_FALSE(key.starts_with("p/")) << key;
}

TEST_F(GatewayAbuse, RequestsInWorkAreBounded) {
  RawClient client(rig);
  client.join();
  uint64_t number = 2;
  for (; number < 2 + limits::kMaxRequestsInWork; ++number) {
    client.send(wire::ServiceStatus{}, number);
  }
  EXPECT_THAT(message_of(client.ask(wire::ServiceStatus{}, number)),
              HasSubstr("16 requests of this session"));
  EXPECT_THAT(rig.sink.requests, SizeIs(limits::kMaxRequestsInWork));
}

TEST_F(GatewayAbuse, LifelinesThatSayNothingAreBounded) {
  std::vector<Descriptor> connections;
  for (uint32_t i = 0; i < limits::kMaxPendingConnectionsPerUser + 10; ++i) {
    connections.push_back(std::move(connect_unix(rig.address->descriptor_path())).value());
  }
  rig.crank_until([&] { return rig.gateway->counters().refused == 10; });
  connections.clear();  // hanging up makes room
  RawClient client(rig);
  client.hello();
  client.open_lifeline();
  rig.crank_until([&] { return client.lifeline.valid(); });
}

TEST_F(GatewayAbuse, SessionsOfOneUserAreBounded) {
  RawClient client(rig);
  for (uint32_t i = 0; i < limits::kMaxSessionsPerUser; ++i) client.hello(i + 1);
  const wire::Token none{};
  client.welcome.token = none;
  wire::Hello hello;
  EXPECT_THAT(message_of(client.ask(hello, 100'000)),
              HasSubstr("has 512 sessions and wants 1 more; the limit of one user is 512"));
  rig.clock.advance(limits::kLifelinePatience);
  // They end here, and not behind the next client's message.
  rig.crank_until([&] { return rig.gateway->next_wakeup() > rig.clock.now(); });
}

}  // namespace
}  // namespace laneway::service
