// Shows that whatever a raw connection says, the server goes on serving the others: bytes that are
// no ZeroMQ, half a greeting, a frame that says it has gigabytes, messages of several frames, an
// end at every byte of a good conversation. The raw side speaks ZMTP 3 by hand (rfc.zeromq.org,
// 23/ZMTP).
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "service/transport/unix_socket.h"
#include "service/transport/zmq_client.h"
#include "service/transport/zmq_server.h"
#include "tests/service/transport/temporary_address.h"
#include "tests/service/transport/zmq_rig.h"
#include "tests/support/seed.h"

namespace laneway::service {
namespace {

using laneway::testing::bytes_of;
using laneway::testing::kPatienceMs;
using laneway::testing::next_message;
using laneway::testing::text_of;

std::string greeting() {
  std::string bytes("\xff\0\0\0\0\0\0\0\x01\x7f\x03\x00NULL", 16);
  bytes.resize(64, '\0');
  return bytes;
}
std::string ready() {
  const std::string type(
      "\x0bSocket-Type\0\0\0\x06"
      "DEALER",
      22);
  const std::string body = "\x05READY" + type;
  return std::string("\x04") + static_cast<char>(body.size()) + body;
}
std::string frame(const std::string& content, bool more = false) {
  return std::string(more ? "\x01" : std::string(1, '\0')) + static_cast<char>(content.size()) +
         content;
}

class ZmqGarbage : public ::testing::Test {
 protected:
  ZmqGarbage() : server_(std::move(ZmqServer::open(address_.listen(), *address_)).value()) {}

  Descriptor connect() { return std::move(connect_unix(address_->path())).value(); }
  static void put(const Descriptor& to, const std::string& bytes) {
    // The server may have hung up already.
    (void)::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // A connection after its handshake: only now may frames follow.
  Descriptor connect_and_greet(const std::string& ready_command = ready()) {
    Descriptor raw = connect();
    put(raw, greeting() + ready_command);
    std::string seen;
    while (seen.find("ROUTER") == std::string::npos) {
      pollfd wait{raw.get(), POLLIN, 0};
      char bytes[4096];
      const bool waited = poll(&wait, 1, kPatienceMs) > 0;
      const ssize_t got = waited ? read(raw.get(), bytes, sizeof(bytes)) : -1;
      if (got <= 0) {
        ADD_FAILURE() << "the server does not greet";
        return raw;
      }
      seen.append(bytes, static_cast<size_t>(got));
    }
    return raw;
  }
  // Reads until the server hangs up.
  static void expect_hang_up(const Descriptor& from) {
    char bytes[4096];
    while (true) {
      pollfd wait{from.get(), POLLIN, 0};
      ASSERT_GT(poll(&wait, 1, kPatienceMs), 0) << "the server keeps the connection";
      if (read(from.get(), bytes, sizeof(bytes)) <= 0) return;
    }
  }
  void expect_service() {
    ZmqClient client = std::move(ZmqClient::open(*address_)).value();
    ASSERT_TRUE(client.send(bytes_of("question")).ok());
    ZmqServer::Message message = next_message(server_);
    while (text_of(message.bytes) != "question") message = next_message(server_);
    EXPECT_TRUE(server_.send(message.route, bytes_of("answer")));
    EXPECT_EQ(text_of(client.receive(seconds(60)).value()), "answer");
  }

  laneway::testing::TemporaryAddress address_;
  ZmqServer server_;
};

TEST_F(ZmqGarbage, TheRawSideSpeaksWellEnoughToBeHeard) {
  const Descriptor raw = connect_and_greet();
  put(raw, frame("hello"));
  const ZmqServer::Message message = next_message(server_);
  EXPECT_EQ(text_of(message.bytes), "hello");
  EXPECT_EQ(message.peer.pid, getpid());
}

TEST_F(ZmqGarbage, RandomBytes) {
  Random random(laneway::testing::seed_from_environment(91));
  for (int i = 0; i < 50; ++i) {
    const Descriptor raw = connect();
    std::string bytes(random.below(3000), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.next());
    put(raw, bytes);
  }
  expect_service();
}

TEST_F(ZmqGarbage, AnEndAtEveryByteOfAConversation) {
  const std::string all = greeting() + ready() + frame("hello");
  for (size_t size = 0; size < all.size(); ++size) put(connect(), all.substr(0, size));
  const std::string large = "\x02" + std::string("\0\0\0\0\0\x01\0\0", 8) + "some bytes";
  for (size_t size = 0; size < large.size(); ++size)
    put(connect_and_greet(), large.substr(0, size));
  expect_service();
}

TEST_F(ZmqGarbage, ConnectionsThatStopHalfwayStayAndHoldNobodyUp) {
  const std::string all = greeting() + ready() + frame("hello");
  std::vector<Descriptor> open;
  for (size_t size = 0; size < all.size(); size += 7) {
    open.push_back(connect());
    put(open.back(), all.substr(0, size));
  }
  expect_service();
}

TEST_F(ZmqGarbage, AFrameOfGigabytesIsHungUpOn) {
  for (const char* length :
       {"\x7f\xff\xff\xff\xff\xff\xff\xff", "\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    const Descriptor raw = connect_and_greet();
    put(raw, "\x02" + std::string(length, 8) + "some bytes");
    expect_hang_up(raw);
  }
  const Descriptor raw = connect_and_greet();
  put(raw, "\x02" + std::string("\0\0\0\0\x40\0\0\0", 8) + "some bytes");
  expect_hang_up(raw);
  expect_service();
}

TEST_F(ZmqGarbage, MessagesOfSeveralFramesAreDroppedAndCounted) {
  const Descriptor raw = connect_and_greet();
  put(raw, frame("a", true) + frame("b", true) + frame("c") + frame("whole"));
  EXPECT_EQ(text_of(next_message(server_).bytes), "whole");
  EXPECT_EQ(server_.malformed(), 1u);
}

TEST_F(ZmqGarbage, CredentialsThatAPeerSaysOfItselfAreNotBelieved) {
  const std::string type(
      "\x0bSocket-Type\0\0\0\x06"
      "DEALER",
      22);
  const std::string lie("\x0cPeer-Address\0\0\0\x08:0:0:0:1", 25);
  const std::string body = "\x05READY" + type + lie;
  const Descriptor raw =
      connect_and_greet(std::string("\x04") + static_cast<char>(body.size()) + body);
  put(raw, frame("trust me"));
  const ZmqServer::Message message = next_message(server_);
  EXPECT_EQ(text_of(message.bytes), "trust me");
  EXPECT_EQ(message.peer.pid, getpid());
}

}  // namespace
}  // namespace laneway::service
