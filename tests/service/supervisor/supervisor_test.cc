// The supervisor's rules, with the real lanewayd and puppets for broker and workers: what a new
// broker finds, who is active when, who is started again, killed, given up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "tests/service/supervisor/stage.h"

namespace laneway::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Supervisor, IsReadyWhenABrokerServesAndAnActiveWorkerIsConnectedToIt) {
  Stage stage;
  stage.start();
  Actor broker = stage.broker();
  EXPECT_EQ(broker.next(), "start epoch 1 policy fifo fds 3");
  EXPECT_EQ(broker.next(), "held end");
  Actor worker = stage.ready_worker();
  worker.expect("activate 1");
  worker.expect("broker channel 1");
  broker.expect("worker up " + worker.pid_text() + " active ready epoch 1 connected");
  broker.say("peer hello");
  worker.expect("peer hello");
  broker.say("heartbeat");
  EXPECT_EQ(stage.printed_line(), "lanewayd ready: " + stage.address() + " pool 16 MiB pid " +
                                      std::to_string(stage.daemon().pid()) + "\n");
}

TEST(Supervisor, WhatIsHeldReachesTheNextBrokerInOrderWithItsDescriptors) {
  Stage stage;
  stage.start();
  Actor first = stage.serving_broker();
  first.say("hold s/1 session lifeline");
  first.say("hold j/1 job graph image");
  first.say("hold p/1/1 descriptor message graph");
  first.say("hold l/1/1 link");
  first.say("release p/1/1");
  first.say("hold j/1 job-two graph other-image");
  first.say("policy srtf");
  first.say("pool 4096");
  first.process().kill(SIGKILL);
  Actor second = stage.broker();
  EXPECT_EQ(second.next(), "start epoch 2 policy srtf pool 4096 fds 3");
  EXPECT_EQ(second.next(), "held s/1 session [lifeline]");
  EXPECT_EQ(second.next(), "held j/1 job-two [graph] [other-image]");
  EXPECT_EQ(second.next(), "held l/1/1 link");
  EXPECT_EQ(second.next(), "held end");
  EXPECT_TRUE(first.process().is_gone());
}

TEST(Supervisor, ABrokerIsToldWhatIsHeldAndWhatFoundNoRoom) {
  Stage stage;
  stage.start();
  Actor first = stage.serving_broker();
  first.say("say-holds");
  first.say("hold j/1 job graph image");
  first.expect("held up to 1");
  first.say("renote j/1 other 1");
  first.expect("held up to 2");
  const std::string key(200, 'k');
  first.say("hold " + key + " note graph");
  EXPECT_THAT(first.expect("refused 3 "), HasSubstr("a key of bytes 200 is over the limit of 128"));
  first.expect("held up to 3");
  first.say("hold l/1/1 link");
  first.expect("held up to 4");
  first.process().kill(SIGKILL);
  Actor second = stage.broker();
  second.expect("start epoch 2");
  EXPECT_EQ(second.next(), "held j/1 other [graph]");
  EXPECT_EQ(second.next(), "held l/1/1 link");
  EXPECT_EQ(second.next(), "held end");
  second.say("say-holds");
  second.say("hold s/1 session");
  second.expect("held up to 1");
}

TEST(Supervisor, ASocketThatWasRemovedIsSaidInTheLogAndTheServiceGoesOn) {
  Stage stage;
  stage.start();
  Actor broker = stage.serving_broker();
  std::filesystem::remove(stage.socket());
  stage.wait_for_log("the socket " + stage.socket() +
                     " was removed: clients that come now do not find this service");
  broker.say("heartbeat");
  EXPECT_FALSE(broker.process().is_gone());
}

TEST(Supervisor, WhatNoOpenFileIsLeftForIsRefusedAndEndsNobody) {
  Stage stage;
  stage.start_limited(60);
  Actor broker = stage.serving_broker();
  Actor worker = stage.ready_worker();
  broker.say("say-holds");
  broker.say("hold j/1 job a b c d e f g h");
  broker.expect("held up to 1");
  broker.say("hold j/2 job a b c d e f g h");
  EXPECT_THAT(broker.expect("refused 2 "),
              HasSubstr("open files in all 16 is over the limit of 12"));
  broker.expect("held up to 2");
  broker.process().kill(SIGKILL);
  Actor second = stage.broker();
  second.expect("start epoch 2");
  EXPECT_EQ(second.next(), "held j/1 job [a] [b] [c] [d] [e] [f] [g] [h]");
  EXPECT_EQ(second.next(), "held end");
  EXPECT_FALSE(worker.process().is_gone());
}

TEST(Supervisor, MoreIsHeldThanASocketTakesAtOnce) {
  constexpr int kEntries = 300;
  Stage stage;
  stage.start();
  Actor first = stage.serving_broker();
  first.say("hold-many " + std::to_string(kEntries) + " 100000");
  first.say("hold last note");
  Actor worker = stage.ready_worker();
  first.expect("worker up " + worker.pid_text() + " active");
  first.say("policy srtf");
  first.tell("exit 1");
  Actor second = stage.broker();
  second.expect("start epoch 2 policy srtf");  // all that was said before is heard first
  for (int i = 1; i <= kEntries; ++i) {
    const std::string key = "many/" + std::to_string(i);
    ASSERT_EQ(second.next(), "held " + key + " 100000 [" + key + "]");
  }
  EXPECT_EQ(second.next(), "held last note");
  EXPECT_EQ(second.next(), "held end");
  second.expect("worker up " + worker.pid_text() + " active ready epoch 1 connected");
}

TEST(Supervisor, ANewBrokerIsConnectedToTheSameWorker) {
  Stage stage;
  stage.start({"--standby", "0"});
  Actor first = stage.serving_broker();
  Actor worker = stage.ready_worker();
  worker.expect("broker channel 1");
  first.process().kill(SIGKILL);
  Actor second = stage.serving_broker();
  second.expect("worker up " + worker.pid_text() + " active ready epoch 1 connected");
  worker.expect("broker channel 2");
  worker.say("peer again");
  second.expect("peer again");
}

TEST(Supervisor, AStandbyTakesOverWithTheMemoryOnlyWhenThePredecessorIsReaped) {
  Stage stage;
  stage.start();
  Actor broker = stage.serving_broker();
  Actor active = stage.ready_worker();
  active.expect("broker channel 1");
  active.say("write ab");
  Actor standby = stage.ready_worker();
  broker.expect("worker up " + standby.pid_text() + " standby ready epoch 0");
  active.process().kill(SIGKILL);
  broker.expect("worker down " + active.pid_text());
  EXPECT_TRUE(active.process().is_gone());
  broker.expect("worker up " + standby.pid_text() + " active ready epoch 2 connected");
  standby.expect("activate 2");
  standby.expect("broker channel 1");
  standby.say("read");
  EXPECT_EQ(standby.expect("memory"), "memory ab");
  Actor next = stage.ready_worker();
  broker.expect("worker up " + next.pid_text() + " standby ready epoch 0");
}

TEST(Supervisor, AStandbyIsConnectedToEachBrokerToPrepareJobs) {
  Stage stage;
  stage.start();
  Actor broker = stage.serving_broker();
  Actor active = stage.ready_worker();
  active.expect("activate 1");
  EXPECT_EQ(active.next(), "broker channel 1") << "and none before it was activated";
  Actor standby = stage.ready_worker();
  standby.expect("broker channel 1");
  broker.expect("worker up " + standby.pid_text() + " standby ready epoch 0 connected");
  broker.process().kill(SIGKILL);
  Actor second = stage.serving_broker();
  second.expect("worker up " + standby.pid_text() + " standby ready epoch 0 connected");
  standby.expect("broker channel 2");
  active.process().kill(SIGKILL);
  standby.expect("activate 2");
  standby.expect("broker channel 2");
  second.expect("worker up " + standby.pid_text() + " active ready epoch 2 connected");
}

TEST(Supervisor, AStandbyThatIsNotToPrepareIsConnectedWhenItIsActivated) {
  Stage stage;
  stage.start({"--unprepared-standby"});
  Actor broker = stage.serving_broker();
  Actor active = stage.ready_worker();
  active.expect("activate 1");
  Actor standby = stage.ready_worker();
  broker.expect("worker up " + standby.pid_text() + " standby ready epoch 0");
  active.process().kill(SIGKILL);
  EXPECT_EQ(standby.next(), "activate 2");
  EXPECT_EQ(standby.next(), "broker channel 1");
}

TEST(Supervisor, AWorkerThatHangsUpIsKilledBeforeAnotherIsActivated) {
  Stage stage;
  stage.start({"--time-scale", "0.1"});
  Actor active = stage.ready_worker();
  active.expect("activate 1");
  Actor standby = stage.ready_worker();
  active.say("deaf");
  active.say("hangup");
  standby.expect("activate 2");
  EXPECT_TRUE(active.process().is_gone());
}

TEST(Supervisor, AWorkerWithoutAStandbyIsReplaced) {
  Stage stage;
  stage.start({"--standby", "0"});
  Actor broker = stage.serving_broker();
  Actor first = stage.ready_worker();
  first.expect("broker channel 1");
  first.leave(3);
  Actor second = stage.ready_worker();
  second.expect("activate 2");
  broker.expect("worker up " + second.pid_text() + " active ready epoch 2 connected");
  EXPECT_THAT(stage.log(), HasSubstr("worker " + first.pid_text() + " ended: exit code 3"));
}

TEST(Supervisor, ABrokerThatSaysNothingIsKilledAndReplaced) {
  Stage stage;
  stage.start({"--time-scale", "0.05"});
  Actor first = stage.broker();
  first.say("deaf");
  Actor second = stage.broker();
  EXPECT_EQ(second.next(), "start epoch 2 policy fifo fds 3");
  EXPECT_TRUE(first.process().is_gone());
}

TEST(Supervisor, ABrokerThatSendsWhatIsNoMessageIsReplaced) {
  Stage stage;
  stage.start();
  Actor first = stage.serving_broker();
  first.tell("garbage");
  EXPECT_EQ(stage.broker().next(), "start epoch 2 policy fifo fds 3");
  EXPECT_TRUE(first.process().is_gone());
}

TEST(Supervisor, AWorkerThatDoesNotGetReadyIsReplaced) {
  Stage stage;
  stage.start({"--time-scale", "0.05", "--standby", "0"});
  Actor first = stage.worker();
  first.expect("start");
  Actor second = stage.worker();
  EXPECT_TRUE(first.process().is_gone());
}

TEST(Supervisor, ABrokerThatDiesAgainAndAgainIsTheEnd) {
  Stage stage;
  stage.start({"--time-scale", "0.1"});
  Actor worker = stage.ready_worker();
  for (int death = 0; death < 10; ++death) {
    Actor broker = stage.broker();
    EXPECT_THAT(broker.next(), HasSubstr("start epoch " + std::to_string(death + 1)));
    broker.process().kill(SIGKILL);
  }
  EXPECT_EQ(stage.exit_code(), 1);
  EXPECT_THAT(stage.log(), HasSubstr("the broker dies again and again"));
  EXPECT_TRUE(worker.process().is_gone());
  EXPECT_THAT(stage.files(), ElementsAre());
}

TEST(Supervisor, WorkersThatDieAgainAndAgainAreTheEndAndTheJobsEndFirst) {
  Stage stage;
  stage.start({"--standby", "0", "--time-scale", "0.1"});
  Actor broker = stage.serving_broker();
  for (int death = 0; death < 10; ++death) {
    broker.say("heartbeat");
    stage.worker().process().kill(SIGKILL);
  }
  broker.expect("stop workers die again and again");
  broker.say("stopped");
  broker.expect("hung up");
  broker.leave(0);
  EXPECT_EQ(stage.exit_code(), 1);
  EXPECT_THAT(stage.log(), HasSubstr("workers die again and again"));
}

}  // namespace
}  // namespace laneway::testing
