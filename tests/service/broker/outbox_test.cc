// Shows that an outbox says everything in the order in which it was given, makes what is large only
// when its channel has taken what stands before it, leaves out what is not wanted any more, and
// waits for what cannot be made yet.
#include "service/broker/outbox.h"

#include <gtest/gtest.h>

#include <string>

namespace laneway::service {
namespace {

class OutboxTest : public ::testing::Test {
 protected:
  OutboxTest() {
    auto ends = Channel::pair({.queued_bytes = 1u << 20});
    out_.open(std::move(ends.value().first));
    other_ = std::move(ends.value().second);
  }
  static std::vector<std::byte> bytes(const std::string& text, size_t size = 0) {
    std::vector<std::byte> all;
    for (const char one : text) all.push_back(static_cast<std::byte>(one));
    all.resize(std::max(size, all.size()));
    return all;
  }
  void later(const std::string& text, size_t size = 0) {
    ASSERT_TRUE(out_.send_later([this, text, size]() -> Result<std::optional<Outbox::Letter>> {
      ++made_;
      return std::optional(Outbox::Letter{.bytes = bytes(text, size), .fds = {}});
    }));
  }
  // The next text that the other side reads; "" when there is none.
  std::string next() {
    EXPECT_TRUE(out_.flush());
    auto frame = other_.receive();
    if (!frame || !frame.value()) return "";
    std::string text;
    for (const std::byte one : frame.value()->bytes) {
      if (one != std::byte{0}) text += static_cast<char>(one);
    }
    return text;
  }

  Outbox out_;
  Channel other_;
  int made_ = 0;
};

TEST_F(OutboxTest, WhatWasGivenLaterIsSaidLaterHoweverItIsMade) {
  later("1", 600'000);  // more than a socket takes
  later("2");
  ASSERT_TRUE(out_.send(bytes("3")));
  later("4");
  EXPECT_EQ(made_, 1) << "the others wait unmade";
  std::string all;
  for (int i = 0; i < 100'000 && all.size() < 4; ++i) all += next();
  EXPECT_EQ(all, "1234");
  EXPECT_EQ(out_.waiting(), 0u);
}

TEST_F(OutboxTest, MuchMoreThanAChannelQueuesIsSaidWithoutAQueue) {
  constexpr int kLetters = 200;
  constexpr size_t kSize = 100'000;  // in all twenty times what the channel queues
  for (int i = 0; i < kLetters; ++i) later(std::to_string(i), kSize);
  EXPECT_LT(made_, 10);
  for (int i = 0; i < kLetters; ++i) {
    std::string text;
    for (int look = 0; look < 100'000 && text.empty(); ++look) text = next();
    ASSERT_EQ(text, std::to_string(i));
    EXPECT_LT(made_, i + 10);
  }
}

TEST_F(OutboxTest, WhatIsNotWantedAnyMoreIsLeftOut) {
  ASSERT_TRUE(out_.send_later([] { return Result<std::optional<Outbox::Letter>>(std::nullopt); }));
  later("next");
  EXPECT_EQ(next(), "next");
}

TEST_F(OutboxTest, WhatCannotBeMadeYetIsAskedForAgainAndNothingOvertakesIt) {
  bool possible = false;
  ASSERT_TRUE(out_.send_later([&]() -> Result<std::optional<Outbox::Letter>> {
    if (!possible) return Error{ErrorCode::failed, "no descriptor"};
    return std::optional(Outbox::Letter{.bytes = bytes("first"), .fds = {}});
  }));
  ASSERT_TRUE(out_.send(bytes("second")));
  EXPECT_EQ(next(), "");
  ASSERT_TRUE(out_.held_up());
  EXPECT_EQ(out_.held_up()->message, "no descriptor");
  possible = true;
  EXPECT_EQ(next(), "first");
  EXPECT_EQ(next(), "second");
  EXPECT_FALSE(out_.held_up());
}

TEST_F(OutboxTest, MessagesThatWaitBehindAreBounded) {
  ASSERT_TRUE(out_.send_later([]() -> Result<std::optional<Outbox::Letter>> {
    return Error{ErrorCode::failed, "no"};
  }));
  const std::vector<std::byte> large(32u << 20);
  Status sent;
  int count = 0;
  for (; sent && count < 100; ++count) sent = out_.send(large);
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().code, ErrorCode::refused);
  EXPECT_EQ(count, 9) << "256 MiB are 8 of them";
}

TEST_F(OutboxTest, AnotherChannelIsToldNothingOfTheOneBefore) {
  later("1", 600'000);
  later("2");
  auto ends = Channel::pair();
  out_.open(std::move(ends.value().first));
  other_ = std::move(ends.value().second);
  later("new");
  EXPECT_EQ(next(), "new");
  EXPECT_EQ(out_.waiting(), 0u);
}

}  // namespace
}  // namespace laneway::service
