// Conversation: the program is told what changed, the last of each job, when it has answered what
// was said before; and what it says is checked.
#include "plugin/conversation.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/plugin/said.h"

namespace laneway::plugin {
namespace {

class ConversationTest : public testing::Test {
 protected:
  void begin() {
    ASSERT_TRUE(conversation_.heard(hello()));
    sent();
  }
  void tell(uint64_t job, bool gone = false) {
    lanes::TellPolicy news;
    news.facts.job = JobId(job);
    news.gone = gone;
    conversation_.tell(news, "");
  }
  // The types of the frames that are to be sent, which are.
  std::vector<FrameType> sent() {
    std::vector<FrameType> types;
    const FrameBytes bytes = std::exchange(conversation_.to_send(), {});
    for (size_t at = 0; at < bytes.size();) {
      uint32_t length = 0;
      std::memcpy(&length, bytes.data() + at, sizeof(length));
      types.push_back(static_cast<FrameType>(bytes.at(at + sizeof(length))));
      at += sizeof(length) + length;
    }
    return types;
  }
  // Jobs 1 to `most` are told, and asked about.
  void ask(uint64_t most) {
    begin();
    for (uint64_t job = 1; job <= most; ++job) tell(job);
    ASSERT_TRUE(conversation_.send(now_));
    sent();
  }
  std::string complaint(const FrameBytes& bytes) {
    const Status heard = conversation_.heard(bytes);
    return heard ? "" : heard.error().message;
  }

  Conversation conversation_{"key=value", 7};
  TimePoint now_ = TimePoint(seconds(100).ns());
};

using Types = std::vector<FrameType>;

TEST_F(ConversationTest, NothingIsToldBeforeItSaidHello) {
  EXPECT_TRUE(conversation_.is_asked());
  EXPECT_EQ(sent(), Types{FrameType::hello});
  tell(1);
  EXPECT_FALSE(conversation_.send(now_));
  EXPECT_FALSE(conversation_.has_begun());
  ASSERT_TRUE(conversation_.heard(hello()));
  EXPECT_TRUE(conversation_.has_begun());
  EXPECT_FALSE(conversation_.is_asked());
  EXPECT_TRUE(conversation_.send(now_));
  EXPECT_EQ(sent(), (Types{FrameType::job, FrameType::instant}));
}

TEST_F(ConversationTest, WithoutNewsThereIsNothingToSay) {
  begin();
  EXPECT_FALSE(conversation_.send(now_));
  EXPECT_EQ(sent(), Types());
}

TEST_F(ConversationTest, WhileItThinksTheLastOfEachJobIsKept) {
  ask(2);
  tell(1);
  tell(1);
  tell(3);
  tell(3, /*gone=*/true);  // it never heard of it
  tell(2, /*gone=*/true);
  EXPECT_FALSE(conversation_.send(now_)) << "it owes an answer";
  ASSERT_TRUE(conversation_.heard(done(1)));
  EXPECT_TRUE(conversation_.send(now_));
  EXPECT_EQ(sent(), (Types{FrameType::job, FrameType::gone, FrameType::instant}));
}

TEST_F(ConversationTest, WhatItAdvisesIsTakenOnceTheLastOfEachJob) {
  ask(2);
  FrameBytes said = rank(2, 5);
  for (const FrameBytes& more : {rank(1, 1), rank(2, 6), done(1)}) {
    said.insert(said.end(), more.begin(), more.end());
  }
  ASSERT_TRUE(conversation_.heard(said));
  EXPECT_FALSE(conversation_.is_asked());
  const auto events = conversation_.take_advice();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(std::get<lanes::Advice>(events[0]).job, JobId(1));
  EXPECT_EQ(std::get<lanes::Advice>(events[1]).advice.value, 6);
  EXPECT_TRUE(conversation_.take_advice().empty());
}

// It may not have read yet that a job is over: no fault of its own.
TEST_F(ConversationTest, AJobThatIsOverIsRankedForNothing) {
  ask(2);
  ASSERT_TRUE(conversation_.heard(done(1)));
  tell(1, /*gone=*/true);
  ASSERT_TRUE(conversation_.send(now_));
  ASSERT_TRUE(conversation_.heard(rank(1, 3)));
  EXPECT_TRUE(conversation_.take_advice().empty());
}

TEST_F(ConversationTest, WakesAtWhatItSaidLast) {
  ask(1);
  EXPECT_EQ(conversation_.wakes_at(), TimePoint::never());
  ASSERT_TRUE(conversation_.heard(wake_at(101)));
  EXPECT_EQ(conversation_.wakes_at(), TimePoint(seconds(101).ns()));
  ASSERT_TRUE(conversation_.heard(frame(FrameType::said_wake_at, uint8_t{0}, 0.0)));
  EXPECT_EQ(conversation_.wakes_at(), TimePoint::never());
}

TEST_F(ConversationTest, ATimeThatIsOverCannotWakeIt) {
  ask(1);
  EXPECT_NE(complaint(wake_at(100)).find("a later time"), std::string::npos);
}

TEST_F(ConversationTest, JobsThatNobodyToldOfCannotBeRanked) {
  ask(2);
  EXPECT_NE(complaint(rank(3, 1)).find("ranks job 3, of which it was never told"),
            std::string::npos);
}

TEST_F(ConversationTest, TheOrderOfWhatIsSaidIsKept) {
  sent();
  EXPECT_NE(complaint(done(0)).find("did not say Hello first"), std::string::npos);
  begin();
  EXPECT_NE(complaint(hello()).find("Hello twice"), std::string::npos);
}

TEST_F(ConversationTest, NobodyAnswersWhatWasNotAsked) {
  ask(1);
  EXPECT_NE(complaint(done(2)).find("instant 2"), std::string::npos);
  EXPECT_EQ(complaint(done(1)), "");
  EXPECT_NE(complaint(done(1)).find("instant 1"), std::string::npos);
  EXPECT_NE(complaint(rank(1, 1)).find("without being asked"), std::string::npos);
  EXPECT_NE(complaint(wake_at(200)).find("without being asked"), std::string::npos);
}

TEST_F(ConversationTest, AnotherVersionIsRefused) {
  EXPECT_NE(complaint(hello(kVersion + 1)).find("speaks version 2"), std::string::npos);
}

}  // namespace
}  // namespace laneway::plugin
