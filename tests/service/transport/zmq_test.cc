// Shows that requests and replies go through with the sender's credentials as the kernel knows
// them, that nothing is missed though the descriptor announces changes only, that a client which
// does not read or is gone costs its replies and nothing else, and that clients reach a broker that
// was killed and made again over the same listening socket without doing anything.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "service/transport/limits.h"
#include "service/transport/zmq_client.h"
#include "service/transport/zmq_server.h"
#include "service/wire/limits.h"
#include "tests/service/transport/temporary_address.h"
#include "tests/service/transport/zmq_rig.h"

namespace laneway::service {
namespace {

using laneway::testing::bytes_of;
using laneway::testing::next_message;
using laneway::testing::TemporaryAddress;
using laneway::testing::text_of;

constexpr Duration kPatience = seconds(60);

TEST(Zmq, RequestsComeWithTheSendersCredentials) {
  TemporaryAddress address;
  ZmqServer server = std::move(ZmqServer::open(address.listen(), *address)).value();
  ZmqClient client = std::move(ZmqClient::open(*address)).value();
  ASSERT_TRUE(client.send(bytes_of("question")).ok());
  const ZmqServer::Message message = next_message(server);
  EXPECT_EQ(text_of(message.bytes), "question");
  EXPECT_EQ(message.peer.pid, getpid());
  EXPECT_EQ(message.peer.uid, getuid());
  EXPECT_EQ(message.peer.gid, getgid());
  EXPECT_TRUE(server.send(message.route, bytes_of("answer")));
  EXPECT_EQ(text_of(client.receive(kPatience).value()), "answer");
}

TEST(Zmq, AClientMayComeBeforeItsService) {
  TemporaryAddress address;
  ZmqClient client = std::move(ZmqClient::open(*address)).value();
  ASSERT_TRUE(client.send(bytes_of("early")).ok());
  EXPECT_EQ(client.receive(milliseconds(1)).error().code, ErrorCode::timed_out);
  ZmqServer server = std::move(ZmqServer::open(address.listen(), *address)).value();
  EXPECT_EQ(text_of(next_message(server).bytes), "early");
}

TEST(Zmq, NobodyThereBoundsWhatWaits) {
  TemporaryAddress address;
  ZmqClient client = std::move(ZmqClient::open(*address)).value();
  Status status;
  int sent = 0;
  while (status.ok() && sent < 1000) {
    status = client.send(bytes_of("x"));
    if (status.ok()) ++sent;
  }
  EXPECT_EQ(status.error().code, ErrorCode::refused);
  EXPECT_EQ(sent, limits::kMaxQueuedRequests);
  EXPECT_EQ(client.send(std::vector<std::byte>(limits::kMaxRequestBytes + 1)).error().code,
            ErrorCode::invalid_argument);
}

// Every reply to one client is sent while the next one's request may be arriving, which takes the
// announcement of it.
TEST(Zmq, NoMessageIsMissedBetweenSends) {
  TemporaryAddress address;
  ZmqServer server = std::move(ZmqServer::open(address.listen(), *address)).value();
  ZmqClient one = std::move(ZmqClient::open(*address)).value();
  ZmqClient two = std::move(ZmqClient::open(*address)).value();
  ASSERT_TRUE(one.send(bytes_of("1")).ok());
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(two.send(bytes_of("2")).ok());
    for (int n = 0; n < 2; ++n) {
      const ZmqServer::Message message = next_message(server);
      ASSERT_TRUE(server.send(message.route, message.bytes));
    }
    ASSERT_EQ(text_of(one.receive(kPatience).value()), "1");
    ASSERT_TRUE(one.send(bytes_of("1")).ok());
    ASSERT_EQ(text_of(two.receive(kPatience).value()), "2");
  }
}

TEST(Zmq, AReplyToAClientThatIsGoneIsDropped) {
  TemporaryAddress address;
  ZmqServer server = std::move(ZmqServer::open(address.listen(), *address)).value();
  std::string route;
  {
    ZmqClient client = std::move(ZmqClient::open(*address)).value();
    ASSERT_TRUE(client.send(bytes_of("question")).ok());
    route = next_message(server).route;
  }
  while (server.send(route, bytes_of("answer"))) {
    server.receive();
  }
  ZmqClient other = std::move(ZmqClient::open(*address)).value();
  ASSERT_TRUE(other.send(bytes_of("question")).ok());
  EXPECT_TRUE(server.send(next_message(server).route, bytes_of("answer")));
}

TEST(Zmq, AClientThatDoesNotReadLosesRepliesAndHoldsNobodyUp) {
  TemporaryAddress address;
  ZmqServer server = std::move(ZmqServer::open(address.listen(), *address)).value();
  ZmqClient client = std::move(ZmqClient::open(*address)).value();
  ASSERT_TRUE(client.send(bytes_of("question")).ok());
  const std::string route = next_message(server).route;
  const std::vector<std::byte> large(1 << 20);
  int sent = 0;
  while (server.send(route, large)) ASSERT_LT(++sent, 1000);
  EXPECT_EQ(client.receive(kPatience).value().size(), large.size());
}

// Answers every request with its number and the request's text, until it is killed.
[[noreturn]] void serve(Descriptor listener, const Address& address, const std::string& name) {
  ZmqServer server = std::move(ZmqServer::open(std::move(listener), address)).value();
  while (true) {
    const ZmqServer::Message message = next_message(server);
    server.send(message.route, bytes_of(name + text_of(message.bytes)));
  }
}

std::string ask(ZmqClient& client, const std::string& text) {
  while (true) {  // as a client does: again when nothing came
    (void)client.send(bytes_of(text));
    Result<std::vector<std::byte>> reply = client.receive(milliseconds(200));
    if (reply.ok()) return text_of(reply.value());
  }
}

TEST(Zmq, AClientReachesTheNextBrokerOverTheSameListener) {
  TemporaryAddress address;
  const Descriptor listener = address.listen();
  // Both are forked before this process has threads; the second waits until it is told.
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  const pid_t first = fork();
  if (first == 0) serve(std::move(listener.duplicate()).value(), *address, "first ");
  const pid_t second = fork();
  if (second == 0) {
    char byte = 0;
    if (read(gate[0], &byte, 1) != 1) _exit(1);
    serve(std::move(listener.duplicate()).value(), *address, "second ");
  }
  ZmqClient client = std::move(ZmqClient::open(*address)).value();
  EXPECT_EQ(ask(client, "a"), "first a");
  ASSERT_EQ(kill(first, SIGKILL), 0);
  ASSERT_EQ(waitpid(first, nullptr, 0), first);
  ASSERT_TRUE(client.send(bytes_of("b")).ok());  // to nobody: it may be lost
  ASSERT_EQ(write(gate[1], "x", 1), 1);
  EXPECT_EQ(ask(client, "b"), "second b");
  std::string reply;
  while (reply != "second c") reply = ask(client, "c");  // answers to repeated requests come first
  kill(second, SIGKILL);
  waitpid(second, nullptr, 0);
  close(gate[0]);
  close(gate[1]);
}

}  // namespace
}  // namespace laneway::service
