// The socket to a policy's process, over a real one, with a time of the test's own: what is said
// when, what the core gets, when the process is late, and that nothing it does is waited for.
#include "service/broker/policy_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "service/broker/limits.h"
#include "tests/service/broker/policy_peer.h"

namespace laneway::service {
namespace {

using plugin::FrameType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::PolicyPeer;

constexpr Duration kTick = milliseconds(1);

class PolicyLinkTest : public ::testing::Test {
 protected:
  PolicyLinkTest() : PolicyLinkTest(PolicyPeer::pair()) {}

  void tell(uint64_t job, bool gone = false) {
    lanes::TellPolicy news;
    news.facts.job = JobId(job);
    news.gone = gone;
    link_.tell(news, "somebody");
  }
  // It has said hello, was told of job 1, and owes the answer to that.
  void begin() {
    link_.say(now_);
    peer_.say(plugin::hello());
    ASSERT_EQ(link_.hear(now_).size(), 1u);
    tell(1);
    link_.say(now_);
    ASSERT_THAT(peer_.heard(), ElementsAre(FrameType::hello, FrameType::job, FrameType::instant));
  }
  void begin_and_answer() {
    begin();
    peer_.say(plugin::done(peer_.instant()));
    ASSERT_THAT(link_.hear(now_), IsEmpty());
  }
  std::string fault() const { return link_.fault() ? link_.fault()->why : ""; }

  TimePoint now_{5'000'000'000};
  PolicyPeer peer_;
  PolicyLink link_;

 private:
  explicit PolicyLinkTest(std::pair<PolicyPeer, Descriptor> ends)
      : peer_(std::move(ends.first)), link_(std::move(ends.second), "key=value", now_) {}
};

TEST_F(PolicyLinkTest, ItComesWithItsHelloAndIsAskedOneBatchAfterTheOther) {
  EXPECT_FALSE(link_.has_begun());
  link_.say(now_);
  EXPECT_THAT(peer_.heard(), ElementsAre(FrameType::hello));
  peer_.say(plugin::hello());
  const auto came = link_.hear(now_);
  ASSERT_EQ(came.size(), 1u);
  EXPECT_EQ(std::get<lanes::AdviserChanged>(came[0]).news, lanes::AdviserNews::came);
  EXPECT_TRUE(link_.has_begun());
  tell(1);
  link_.say(now_);
  EXPECT_THAT(peer_.heard(), ElementsAre(FrameType::job, FrameType::instant));
  // While it thinks, only the last of each job is kept.
  for (int time = 0; time < 1000; ++time) tell(1);
  tell(2);
  link_.say(now_);
  EXPECT_THAT(peer_.heard(), IsEmpty());
  peer_.say(plugin::rank(1, 4.5));
  peer_.say(plugin::done(peer_.instant()));
  const auto advice = link_.hear(now_);
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(std::get<lanes::Advice>(advice[0]).job, JobId(1));
  EXPECT_EQ(std::get<lanes::Advice>(advice[0]).advice.value, 4.5);
  link_.say(now_);
  EXPECT_THAT(peer_.heard(), ElementsAre(FrameType::job, FrameType::job, FrameType::instant));
}

TEST_F(PolicyLinkTest, OneThatDoesNotAnswerInTimeIsLate) {
  begin();
  EXPECT_EQ(link_.next_wakeup(), now_ + PolicyLink::kPatience.answer);
  now_ = link_.next_wakeup();
  link_.say(TimePoint(now_.ns() - 1));
  EXPECT_EQ(fault(), "");
  link_.say(now_);
  EXPECT_EQ(fault(), "it did not answer within 1.0 s");
  EXPECT_FALSE(link_.fault()->hung_up);
  EXPECT_EQ(link_.poll_entry(), std::nullopt);
  EXPECT_EQ(link_.next_wakeup(), TimePoint::never());
}

TEST_F(PolicyLinkTest, OneThatIsNotAskedIsNeverLate) {
  begin_and_answer();
  EXPECT_EQ(link_.next_wakeup(), TimePoint::never());
  link_.say(now_ + seconds(3600));
  EXPECT_EQ(fault(), "");
}

TEST_F(PolicyLinkTest, OneThatNeverSaysHelloIsLateToo) {
  link_.say(now_);
  now_ = now_ + PolicyLink::kPatience.start;
  EXPECT_EQ(link_.next_wakeup(), now_);
  link_.say(now_);
  EXPECT_THAT(fault(), HasSubstr("hello"));
}

TEST_F(PolicyLinkTest, WhoeverWasStoppedItselfBlamesNobody) {
  begin();
  // The answer was there in time, and nobody looked.
  peer_.say(plugin::done(peer_.instant()));
  now_ = now_ + seconds(5);
  link_.hear(now_);
  link_.say(now_);
  EXPECT_EQ(fault(), "");
  // All were stopped together.
  tell(1);
  link_.say(now_);
  now_ = now_ + seconds(9);
  link_.say(now_);
  EXPECT_EQ(fault(), "");
  now_ = now_ + PolicyLink::kPatience.answer;
  EXPECT_EQ(link_.next_wakeup(), now_);
  link_.say(now_);
  EXPECT_THAT(fault(), HasSubstr("answer"));
}

TEST_F(PolicyLinkTest, OneThatHangsUpIsToldApart) {
  begin();
  peer_.hang_up();
  EXPECT_THAT(link_.hear(now_), IsEmpty());
  ASSERT_TRUE(link_.fault());
  EXPECT_TRUE(link_.fault()->hung_up);
}

TEST_F(PolicyLinkTest, NonsenseIsAFault) {
  begin();
  peer_.say(plugin::rank(1, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_THAT(link_.hear(now_), IsEmpty());
  EXPECT_THAT(fault(), HasSubstr("nan"));
  EXPECT_FALSE(link_.fault()->hung_up);
}

TEST_F(PolicyLinkTest, ARankOfAJobThatNeverWasIsAFaultAndOneOfAJobThatIsOverIsNot) {
  begin();
  tell(1, /*gone=*/true);
  peer_.say(plugin::rank(1, 1));
  peer_.say(plugin::done(peer_.instant()));
  link_.hear(now_);
  EXPECT_EQ(fault(), "");
  link_.say(now_);
  EXPECT_THAT(peer_.heard(), ElementsAre(FrameType::gone, FrameType::instant));
  peer_.say(plugin::rank(1, 1));
  EXPECT_THAT(link_.hear(now_), IsEmpty()) << "it is over";
  EXPECT_EQ(fault(), "");
  peer_.say(plugin::rank(7, 1));
  link_.hear(now_);
  EXPECT_THAT(fault(), HasSubstr("job 7"));
}

TEST_F(PolicyLinkTest, WhatIsPrintedToItsDescriptorIsAFault) {
  begin();
  const std::string text = "Traceback (most recent call last):\n";
  peer_.say(std::as_bytes(std::span(text)));
  link_.hear(now_);
  EXPECT_THAT(fault(), HasSubstr("descriptor 3"));
}

TEST_F(PolicyLinkTest, OneThatSpeaksUnaskedIsAFault) {
  begin_and_answer();
  peer_.say(plugin::rank(1, 1));
  link_.hear(now_);
  EXPECT_THAT(fault(), HasSubstr("without being asked"));
}

TEST_F(PolicyLinkTest, OneThatFloodsIsReadInPiecesAndIsLateAllTheSame) {
  begin();
  const plugin::FrameBytes rank = plugin::rank(1, 0);
  for (int round = 0; round < 100; ++round) {
    while (peer_.try_to_say(rank)) {
    }
    // At most one event a job, and an end to each call.
    EXPECT_LE(link_.hear(now_).size(), 1u);
    link_.say(now_);
    if (link_.fault()) break;  // a frame of which the socket took a part
  }
  if (!link_.fault()) link_.say(now_ + PolicyLink::kPatience.answer);
  EXPECT_TRUE(link_.fault());
}

TEST_F(PolicyLinkTest, OneThatDoesNotReadIsNotWaitedFor) {
  begin_and_answer();
  for (uint64_t job = 1; job <= 4096; ++job) {
    lanes::TellPolicy news;
    news.facts.job = JobId(job);
    news.facts.options.name = std::string(256, 'n');
    link_.tell(news, "somebody");
  }
  link_.say(now_);  // comes back though the socket is full
  ASSERT_TRUE(link_.poll_entry());
  EXPECT_NE(link_.poll_entry()->events & POLLOUT, 0);
  now_ = now_ + PolicyLink::kPatience.answer;
  link_.say(now_);
  EXPECT_THAT(fault(), HasSubstr("answer"));
}

TEST_F(PolicyLinkTest, ATimeAtWhichItWantsToBeWokenAsksTheCoreForAllOnce) {
  begin();
  const TimePoint wake = now_ + seconds(2);
  peer_.say(plugin::wake_at(static_cast<double>(wake.ns()) * 1e-9));
  peer_.say(plugin::done(peer_.instant()));
  EXPECT_THAT(link_.hear(now_), IsEmpty());
  link_.say(now_);
  EXPECT_EQ(link_.next_wakeup(), wake);
  const auto events = link_.hear(wake);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<lanes::AdviserChanged>(events[0]).news, lanes::AdviserNews::asks);
  EXPECT_EQ(link_.next_wakeup(), TimePoint::never());
  EXPECT_THAT(link_.hear(wake + kTick), IsEmpty());
}

}  // namespace
}  // namespace laneway::service
