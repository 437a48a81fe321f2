// Shows that descriptors of messages on their way, to the service and to its clients, are counted
// against their user, that what finds no quota is refused to the client whose it is, and that a
// session which cannot be held ends with a word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/service/broker/gateway_rig.h"

namespace laneway::service {
namespace {

using laneway::testing::GatewayRig;
using laneway::testing::RawClient;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr auto kDescriptors = static_cast<size_t>(Resource::descriptors);

class GatewayCounts : public ::testing::Test {
 protected:
  static std::string message_of(const wire::AnyReply& reply) {
    const auto* failure = std::get_if<wire::Failure>(&reply);
    return failure == nullptr ? "no failure" : failure->message;
  }
  uint64_t used() { return rig.quotas.facts().at(kDescriptors).used.value(); }
  // All but so many are taken by another session of this user, for as long as the share lives.
  Result<Quotas::Share> leave(uint64_t left) {
    return rig.quotas.take(Resource::descriptors, ::getuid(),
                           laneway::testing::kManyFiles - used() - left);
  }

  GatewayRig rig;
};

TEST_F(GatewayCounts, DescriptorsThatAreNotReadAreNoMoreThanItsUserMayHave) {
  RawClient client(rig);
  client.join();
  const uint64_t of_session = used();
  // Beside those of one answer, which belong to the session.
  const auto others = leave(10 * 3);
  const uint64_t of_others = used() - of_session;
  uint64_t answers = 0;
  for (uint64_t number = 2; rig.sink.ended.empty(); ++number) {
    ASSERT_LT(++answers, 100u);
    client.send(wire::ServiceStatus{}, number);
    rig.crank_until([&] { return !rig.sink.requests.empty(); });
    rig.sink.requests.clear();
    rig.gateway->reply(SessionId(1), number, wire::JobCreated{},
                       laneway::testing::some_descriptors(3));
    rig.gateway->handle_ready();
    (void)client.socket.receive(Duration());
  }
  EXPECT_EQ(answers, 1 + 10 + 1) << "the first, those that are counted, and the one too many";
  std::string last;
  for (uint64_t i = 0; i < answers; ++i) {
    const auto frame = client.lifeline.receive();
    ASSERT_TRUE(frame.ok() && frame.value().has_value());
    const auto message = wire::decode<wire::AnyLifeline>(frame.value()->bytes).value();
    if (const auto* failure = std::get_if<wire::Failure>(&message)) last = failure->message;
  }
  EXPECT_THAT(last, HasSubstr("open files"));
  EXPECT_EQ(used(), of_others) << "they went with the session";
}

TEST_F(GatewayCounts, AClientThatReadsIsCountedForNothing) {
  RawClient client(rig);
  client.join();
  const auto others = leave(0);
  for (uint64_t number = 2; number < 20; ++number) {
    client.send(wire::ServiceStatus{}, number);
    rig.crank_until([&] { return !rig.sink.requests.empty(); });
    rig.sink.requests.clear();
    rig.gateway->reply(SessionId(1), number, wire::JobCreated{},
                       laneway::testing::some_descriptors(3));
    ASSERT_EQ(client.next_frame()->fds.size(), 3u);
    client.next_reply();
  }
  EXPECT_THAT(rig.sink.ended, SizeIs(0));
}

TEST_F(GatewayCounts, DescriptorsOnTheirWayAreCountedAndRefusedWhereThereIsNoQuota) {
  RawClient client(rig);
  client.join();
  const uint64_t before = used();
  client.send_descriptor_message(2, 1);
  client.send(wire::CreateJob{}, 2);
  rig.crank_until([&] { return !rig.sink.requests.empty(); });
  EXPECT_EQ(used(), before + 1);
  rig.restart();
  EXPECT_EQ(used(), before + 1) << "also by a new broker";
  client.send(wire::CreateJob{}, 2);
  rig.crank_until([&] { return rig.sink.requests.size() == 2; });
  rig.gateway->reply(SessionId(1), 2, wire::Done{});
  client.next_reply();
  EXPECT_EQ(used(), before);

  const auto others = leave(0);
  client.send_descriptor_message(3, 1);
  EXPECT_THAT(message_of(client.ask(wire::CreateJob{}, 3)), HasSubstr("open files"));
  EXPECT_FALSE(rig.holder.entries.contains("p/1/3"));
  EXPECT_THAT(rig.sink.requests, SizeIs(2));
}

TEST_F(GatewayCounts, ASessionThatCannotBeHeldEndsAndItsClientIsTold) {
  RawClient client(rig);
  client.join();
  RawClient other(rig);
  other.join();
  rig.gateway->hold_refused("s/1", {ErrorCode::refused, "'s/1' cannot be held: …"});
  EXPECT_THAT(rig.sink.ended, SizeIs(1));
  const std::optional<Frame> frame = client.next_frame();
  ASSERT_TRUE(frame.has_value());
  EXPECT_THAT(wire::decode_message<wire::Failure>(frame->bytes).value().message,
              HasSubstr("'s/1' cannot be held"));
  EXPECT_THAT(rig.gateway->sessions(), SizeIs(1));
  rig.gateway->hold_refused("s/77", {ErrorCode::refused, "none"});
  rig.gateway->hold_refused("p/2/3", {ErrorCode::refused, "a request"});
  EXPECT_THAT(rig.gateway->sessions(), SizeIs(1));
}

}  // namespace
}  // namespace laneway::service
