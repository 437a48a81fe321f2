// Shows that frames and their descriptors arrive whole and in order whatever the socket takes at
// once, that a side which does not read is bounded, that what breaks the form is refused before
// anything is reserved, and that a stream between frames can go on in another process's hands. The
// other side is a raw socket where the form is broken.
#include "service/transport/channel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "base/random.h"
#include "tests/support/seed.h"

namespace laneway::service {
namespace {

constexpr Duration kPatience = seconds(60);

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* const from = reinterpret_cast<const std::byte*>(text.data());
  return {from, from + text.size()};
}
std::string text_of(const Frame& frame) {
  return {reinterpret_cast<const char*>(frame.bytes.data()), frame.bytes.size()};
}

// A pipe's write end, and a look at whether the read end sees it closed.
struct Pipe {
  Descriptor read_end, write_end;
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  bool closed_by_all_writers() const {
    char byte;
    return read(read_end.get(), &byte, 1) == 0;
  }
};

std::pair<Channel, Channel> channels(ChannelLimits channel_limits = {}) {
  return std::move(Channel::pair(channel_limits)).value();
}

TEST(Channel, FramesArriveWholeAndInOrder) {
  auto [a, b] = channels();
  ASSERT_TRUE(a.send(bytes_of("first")).ok());
  ASSERT_TRUE(a.send({}).ok());
  ASSERT_TRUE(a.send(bytes_of("third")).ok());
  EXPECT_EQ(text_of(b.receive_wait(kPatience).value()), "first");
  EXPECT_EQ(text_of(b.receive_wait(kPatience).value()), "");
  EXPECT_EQ(text_of(b.receive_wait(kPatience).value()), "third");
  EXPECT_FALSE(b.receive().value().has_value());
}

TEST(Channel, DescriptorsArriveWithTheirFrameAndAreClosedOnExec) {
  auto [a, b] = channels();
  Pipe pipe;
  std::vector<Descriptor> fds;
  fds.push_back(std::move(pipe.write_end));
  fds.push_back(pipe.read_end.duplicate().value());
  ASSERT_TRUE(a.send(bytes_of("none")).ok());
  ASSERT_TRUE(a.send(bytes_of("two"), std::move(fds)).ok());
  EXPECT_TRUE(b.receive_wait(kPatience).value().fds.empty());
  Frame frame = b.receive_wait(kPatience).value();
  ASSERT_EQ(frame.fds.size(), 2u);
  EXPECT_EQ(fcntl(frame.fds[0].get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(write(frame.fds[0].get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(pipe.read_end.get(), &byte, 1), 1);
  EXPECT_FALSE(pipe.closed_by_all_writers());
  frame.fds.clear();
  EXPECT_TRUE(pipe.closed_by_all_writers());  // the sender's were closed once they were sent
}

TEST(Channel, LargeFramesGoBothWaysAtOnceWithoutWaitingForEachOther) {
  auto [a, b] = channels();
  Random random(laneway::testing::seed_from_environment(81));
  std::vector<std::byte> large(20u << 20);
  for (std::byte& byte : large) byte = static_cast<std::byte>(random.next());
  Pipe pipe;
  std::vector<Descriptor> fds;
  fds.push_back(std::move(pipe.write_end));
  ASSERT_TRUE(a.send(large).ok());
  ASSERT_TRUE(a.send(large, std::move(fds)).ok());
  ASSERT_TRUE(b.send(large).ok());
  EXPECT_TRUE(a.wants_write());
  EXPECT_TRUE(b.wants_write());
  std::thread other([&b = b, &large] {
    EXPECT_EQ(b.receive_wait(kPatience).value().bytes, large);
    const Frame second = b.receive_wait(kPatience).value();
    EXPECT_EQ(second.bytes, large);
    EXPECT_EQ(second.fds.size(), 1u);
    while (b.wants_write()) ASSERT_TRUE(b.flush().ok());
    EXPECT_TRUE(b.send(bytes_of("end")).ok());
    while (b.wants_write()) ASSERT_TRUE(b.flush().ok());
  });
  EXPECT_EQ(a.receive_wait(kPatience).value().bytes, large);
  EXPECT_EQ(text_of(a.receive_wait(kPatience).value()), "end");
  other.join();
}

TEST(Channel, ASideThatDoesNotReadIsBounded) {
  auto [a, b] = channels({.frame_bytes = 1 << 20, .frame_fds = 1, .queued_bytes = 4 << 20});
  const std::vector<std::byte> frame(1 << 20);
  Status status;
  int sent = 0;
  while (status.ok() && sent < 100) {
    status = a.send(frame);
    if (status.ok()) ++sent;
  }
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::refused);
  EXPECT_THAT(status.error().message, ::testing::HasSubstr("the limit is 4194304"));
  // What was taken arrives all the same.
  std::thread reader([&b = b, sent] {
    for (int i = 0; i < sent; ++i) EXPECT_TRUE(b.receive_wait(kPatience).ok());
  });
  while (a.wants_write()) ASSERT_TRUE(a.flush().ok());
  reader.join();
}

TEST(Channel, FramesBeyondTheLimitsAreNotSent) {
  auto [a, b] = channels({.frame_bytes = 8, .frame_fds = 0, .queued_bytes = 100});
  EXPECT_EQ(a.send(std::vector<std::byte>(9)).error().code, ErrorCode::invalid_argument);
  std::vector<Descriptor> fds;
  fds.push_back(Pipe().read_end.duplicate().value());
  EXPECT_EQ(a.send({}, std::move(fds)).error().code, ErrorCode::invalid_argument);
  fds.emplace_back();
  EXPECT_EQ(channels().first.send({}, std::move(fds)).error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(b.receive().value().has_value());
}

TEST(Channel, HangUpIsToldAfterWhatWasSentBeforeIt) {
  auto [a, b] = channels();
  ASSERT_TRUE(a.send(bytes_of("last words")).ok());
  a = Channel();
  EXPECT_EQ(text_of(b.receive_wait(kPatience).value()), "last words");
  EXPECT_EQ(b.receive_wait(kPatience).error().code, ErrorCode::unavailable);
  Status status;
  while (status.ok()) status = b.send(bytes_of("anybody?"));
  EXPECT_EQ(status.error().code, ErrorCode::unavailable);
}

TEST(Channel, WaitingEndsWithTheTime) {
  auto [a, b] = channels();
  EXPECT_EQ(b.receive_wait(milliseconds(1)).error().code, ErrorCode::timed_out);
}

TEST(Channel, PeerIsThisProcess) {
  auto [a, b] = channels();
  ASSERT_TRUE(a.peer().has_value());
  EXPECT_EQ(a.peer()->pid, getpid());
  EXPECT_EQ(a.peer()->uid, getuid());
}

TEST(Channel, AFrameWhoseDescriptorsCannotBeOpenedComesWithoutThemWhereThatIsAskedFor) {
  auto ends = Channel::pair({.takes_cut_frames = true});
  Channel& a = ends.value().first;
  Channel& b = ends.value().second;
  const std::vector<std::byte> text(3, std::byte{7});
  std::vector<Descriptor> fds;
  for (int i = 0; i < 3; ++i) fds.emplace_back(::dup(0));
  ASSERT_TRUE(a.send(text, std::move(fds)).ok());
  ASSERT_TRUE(a.send(text, {}).ok());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int free = ::dup(0);  // the lowest number; with the next limit the only one that is left
  ::close(free);
  rlimit one_left = before;
  one_left.rlim_cur = static_cast<rlim_t>(free) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one_left), 0);
  const auto cut = b.receive();
  const auto next = b.receive();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(cut.ok() && cut.value().has_value());
  EXPECT_TRUE(cut.value()->is_cut);
  EXPECT_EQ(cut.value()->bytes, text);
  EXPECT_TRUE(cut.value()->fds.empty());
  ASSERT_TRUE(next.ok() && next.value().has_value()) << "the channel goes on";
  EXPECT_FALSE(next.value()->is_cut);
}

TEST(Channel, SaysWhetherAllWasRead) {
  auto ends = Channel::pair();
  Channel& a = ends.value().first;
  Channel& b = ends.value().second;
  EXPECT_TRUE(a.all_read());
  const std::vector<std::byte> text(3, std::byte{7});
  ASSERT_TRUE(a.send(text).ok());
  EXPECT_FALSE(a.all_read());
  ASSERT_TRUE(b.receive().value().has_value());
  EXPECT_TRUE(a.all_read());
}

// ---- the other side is no channel

class RawChannel : public ::testing::Test {
 protected:
  RawChannel() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    raw_.reset(ends[0]);
    channel_ = Channel(Descriptor(ends[1]), kLifelineLimits);
  }
  void put(const std::string& bytes, const std::vector<int>& fds = {}) {
    std::string control(CMSG_SPACE(sizeof(int) * fds.size()), '\0');
    iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* const part = CMSG_FIRSTHDR(&message);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
      std::memcpy(CMSG_DATA(part), fds.data(), sizeof(int) * fds.size());
    }
    ASSERT_EQ(sendmsg(raw_.get(), &message, 0), static_cast<ssize_t>(bytes.size()));
  }
  static std::string header(uint32_t length, uint16_t fds, uint16_t zero = 0) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 4);
    std::memcpy(bytes.data() + 4, &fds, 2);
    std::memcpy(bytes.data() + 6, &zero, 2);
    return bytes;
  }
  std::string refusal() {
    Result<std::optional<Frame>> frame = channel_.receive();
    if (frame.ok()) return frame.value() ? "a frame came" : "nothing came";
    EXPECT_EQ(frame.error().code, ErrorCode::invalid_argument);
    return frame.error().message;
  }

  Descriptor raw_;
  Channel channel_;
};

TEST_F(RawChannel, AFrameThatComesByteForByteArrives) {
  const std::string frame = header(5, 0) + "hello";
  for (size_t i = 0; i < frame.size(); ++i) {
    ASSERT_FALSE(channel_.receive().value().has_value());
    put(frame.substr(i, 1));
  }
  EXPECT_EQ(text_of(*channel_.receive().value()), "hello");
}

TEST_F(RawChannel, DescriptorsOfPiecesArriveToo) {
  Pipe pipe;
  put(header(5, 1).substr(0, 3), {pipe.write_end.get()});
  ASSERT_FALSE(channel_.receive().value().has_value());
  put(header(5, 1).substr(3) + "he");
  ASSERT_FALSE(channel_.receive().value().has_value());
  put("llo");
  EXPECT_EQ(channel_.receive().value()->fds.size(), 1u);
}

TEST_F(RawChannel, FramesAfterEachOtherKeepTheirOwnDescriptors) {
  Pipe pipe;
  put(header(1, 0) + "a");
  put(header(1, 1) + "b", {pipe.write_end.get()});
  put(header(1, 0) + "c");
  EXPECT_EQ(channel_.receive().value()->fds.size(), 0u);
  EXPECT_EQ(channel_.receive().value()->fds.size(), 1u);
  EXPECT_EQ(channel_.receive().value()->fds.size(), 0u);
}

TEST_F(RawChannel, AHugeLengthIsRefusedAtItsHeader) {
  put(header(0xffffffff, 0));
  EXPECT_THAT(refusal(), ::testing::HasSubstr("4294967295 bytes"));
}

TEST_F(RawChannel, AHugeLengthInPiecesIsRefused) {
  put(header(kLifelineLimits.frame_bytes + 1, 0).substr(0, 4));
  ASSERT_FALSE(channel_.receive().value().has_value());
  put(header(0, 0).substr(4));
  EXPECT_THAT(refusal(), ::testing::HasSubstr("the limits are 4096 and 14"));
}

TEST_F(RawChannel, BitsThatMustBeZeroAreLookedAt) {
  put(header(0, 0, 1));
  EXPECT_THAT(refusal(), ::testing::HasSubstr("breaks the channel's form"));
}

TEST_F(RawChannel, DescriptorsThatWereNotAnnouncedAreClosed) {
  Pipe pipe;
  put(header(1, 0) + "x", {pipe.write_end.get()});
  pipe.write_end.reset();
  EXPECT_THAT(refusal(), ::testing::HasSubstr("0 descriptors and 1 came"));
  channel_ = Channel();
  EXPECT_TRUE(pipe.closed_by_all_writers());
}

TEST_F(RawChannel, DescriptorsThatWereAnnouncedAndMissAreAnError) {
  put(header(1, 2) + "x");
  EXPECT_THAT(refusal(), ::testing::HasSubstr("2 descriptors and 0 came"));
}

TEST_F(RawChannel, DescriptorsInTheMiddleOfAFrameAreRefused) {
  Pipe pipe;
  put(header(4, 0) + "ab");
  ASSERT_FALSE(channel_.receive().value().has_value());
  put("cd", {pipe.write_end.get()});
  pipe.write_end.reset();
  EXPECT_THAT(refusal(), ::testing::HasSubstr("do not ride with a header"));
  EXPECT_TRUE(pipe.closed_by_all_writers());
}

TEST_F(RawChannel, MoreDescriptorsThanThereIsRoomForAreClosed) {
  Pipe pipe;
  put(header(1, 4) + "x", std::vector<int>(40, pipe.write_end.get()));
  pipe.write_end.reset();
  EXPECT_THAT(refusal(), ::testing::HasSubstr("more descriptors than 16"));
  EXPECT_TRUE(pipe.closed_by_all_writers());
}

TEST_F(RawChannel, HangUpInTheMiddleOfAFrameIsTold) {
  put(header(4, 0) + "ab");
  raw_.reset();
  const Result<std::optional<Frame>> frame = channel_.receive();
  ASSERT_FALSE(frame.ok());
  EXPECT_THAT(frame.error().message, ::testing::HasSubstr("middle of a frame"));
}

TEST_F(RawChannel, BetweenFramesAnotherHolderOfTheSocketGoesOn) {
  put(header(1, 0) + "a");
  put(header(1, 0) + "b");
  Channel successor(channel_.socket().duplicate().value(), kLifelineLimits);
  EXPECT_EQ(text_of(*channel_.receive().value()), "a");
  channel_ = Channel();  // the other side sees no hang-up
  put(header(1, 0) + "c");
  EXPECT_EQ(text_of(*successor.receive().value()), "b");
  EXPECT_EQ(text_of(*successor.receive().value()), "c");
}

}  // namespace
}  // namespace laneway::service
