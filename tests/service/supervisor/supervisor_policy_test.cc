// A policy from outside under the real lanewayd, with puppets for broker and workers: who gets the
// socket to its process, and when the process is another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/service/supervisor/policy_script.h"
#include "tests/service/supervisor/stage.h"

namespace laneway::testing {
namespace {

using ::testing::HasSubstr;

class SupervisorPolicy : public ::testing::Test {
 protected:
  SupervisorPolicy() { write_script(file_, kWaits); }

  // The process that the broker is told of next.
  static Watched process(Actor& broker, const std::string& after = "") {
    const std::string line = broker.expect("policy ");
    const std::string pid = line.substr(7, line.find(' ', 7) - 7);
    EXPECT_EQ(line, "policy " + pid + " says here" + (after.empty() ? "" : " after: " + after));
    return Watched(std::stoi(pid));
  }

  ScratchFolder folder_;
  std::string file_ = folder_.path() + "/policy";
  Stage stage_;
};

TEST_F(SupervisorPolicy, EachBrokerGetsASocketToAProcessOfItsOwn) {
  stage_.start({"--policy", file_ + ":key=value"});
  Actor first = stage_.broker();
  EXPECT_THAT(first.next(), HasSubstr(file_ + ":key=value"));
  const Watched one = process(first);
  first.process().kill(SIGKILL);
  one.wait_until_gone();
  Actor second = stage_.serving_broker();
  const Watched two = process(second);
  EXPECT_NE(one.pid(), two.pid());
}

TEST_F(SupervisorPolicy, OneThatEndsOrThatItsBrokerGivesUpIsReplaced) {
  stage_.start({"--policy", file_});
  Actor broker = stage_.serving_broker();
  const Watched one = process(broker);
  one.kill(SIGTERM);
  const std::string ended = "it ended: signal 15 (Terminated)";
  EXPECT_EQ(broker.expect("policy "), "policy 0 after: " + ended);
  const Watched two = process(broker, ended);
  two.kill(SIGSTOP);
  broker.say("policy-failed " + std::to_string(two.pid()) + " late");
  EXPECT_EQ(broker.expect("policy "), "policy 0 after: late");
  two.wait_until_gone();
  process(broker, "late");
  EXPECT_THAT(stage_.log(), HasSubstr("fifo decides"));
}

TEST_F(SupervisorPolicy, AnotherPolicyEndsItAndTheSameOneStartsItAnew) {
  stage_.start({"--policy", file_});
  Actor broker = stage_.serving_broker();
  const Watched one = process(broker);
  broker.say("policy " + file_);
  one.wait_until_gone();
  const Watched two = process(broker);
  broker.say("policy srtf");
  two.wait_until_gone();
  broker.process().kill(SIGKILL);
  Actor next = stage_.broker();
  EXPECT_THAT(next.next(), HasSubstr("policy srtf"));
}

TEST_F(SupervisorPolicy, ItEndsWithTheService) {
  stage_.start({"--policy", file_});
  Actor broker = stage_.serving_broker();
  const Watched one = process(broker);
  stage_.daemon().kill(SIGTERM);
  broker.expect("stop");
  one.wait_until_gone();
}

TEST_F(SupervisorPolicy, ItDiesWithASupervisorThatIsKilled) {
  stage_.start({"--policy", file_});
  Actor broker = stage_.serving_broker();
  const Watched one = process(broker);
  stage_.daemon().kill(SIGKILL);
  one.wait_until_gone();
}

TEST_F(SupervisorPolicy, AFileThatMayNotBeStartedIsWrongUsage) {
  write_script(file_, kWaits, 0775);
  const auto [code, text] = stage_.run({"--policy", file_});
  EXPECT_EQ(code, 2);
  EXPECT_THAT(text, HasSubstr(file_));
}

}  // namespace
}  // namespace laneway::testing
