// Workers that hang, are stopped, or die again and again: when another one takes their place, and
// when the service ends. With the real lanewayd and puppets for broker and workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <filesystem>
#include <string>

#include "base/clock.h"
#include "tests/service/supervisor/stage.h"

namespace laneway::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A standby that somebody stopped would never answer.
TEST(Supervisor, AStoppedStandbyIsNotActivated) {
  Stage stage;
  stage.start({"--standby", "2"});
  Actor active = stage.ready_worker();
  active.expect("broker channel 1");
  Actor stopped = stage.ready_worker();
  Actor awake = stage.ready_worker();
  stopped.process().kill(SIGSTOP);
  stopped.process().wait_until_stopped();
  active.process().kill(SIGKILL);
  awake.expect("activate 2");
  stopped.process().wait_until_gone();
  EXPECT_THAT(stage.log(), HasSubstr("it was stopped for too long"));
}

TEST(Supervisor, AStandbyThatDoesNotTakeOverIsReplaced) {
  Stage stage;
  stage.start({"--time-scale", "0.05"});
  Actor broker = stage.serving_broker();
  Actor active = stage.ready_worker();
  active.expect("broker channel 1");
  Actor hanging = stage.ready_worker();
  hanging.say("hangs");
  active.process().kill(SIGKILL);
  hanging.expect("activate 2");
  Actor next = stage.ready_worker();
  broker.say("heartbeat");
  next.expect("activate 3");
  EXPECT_TRUE(hanging.process().is_gone());
  EXPECT_THAT(stage.log(), HasSubstr("it did not take over"));
}

TEST(Supervisor, AnActiveWorkerThatIsStoppedIsReplaced) {
  Stage stage;
  stage.start();
  Actor active = stage.ready_worker();
  active.expect("broker channel 1");
  Actor standby = stage.ready_worker();
  active.process().kill(SIGSTOP);
  standby.expect("activate 2");
  EXPECT_TRUE(active.process().is_gone()) << "it cannot write any more when it is continued";
}

TEST(Supervisor, AStopThatEndsSoonIsNoHang) {
  Stage stage;
  stage.start({"--standby", "0"});
  Actor active = stage.ready_worker();
  active.expect("broker channel 1");
  active.process().kill(SIGSTOP);
  active.process().wait_until_stopped();
  active.process().kill(SIGCONT);
  active.say("read");
  active.expect("memory");
  EXPECT_THAT(stage.log(), Not(HasSubstr("is given up")));
}

TEST(Supervisor, AWorkerWhoseLaneHangsIsReplacedAndTheLogNamesTheLane) {
  Stage stage;
  stage.start({"--time-scale", "0.1"});
  Actor active = stage.ready_worker();
  active.expect("broker channel 1");
  Actor standby = stage.ready_worker();
  active.say("note 3 1 77 5");
  standby.expect("activate 2");
  EXPECT_TRUE(active.process().is_gone());
  EXPECT_THAT(stage.log(), HasSubstr("lane 3 hangs: it runs an iteration for job 12"));
}

// Neither stopped nor dead: it reads nothing that it gets.
TEST(Supervisor, WorkersThatDoNotAnswerAreReplaced) {
  Stage stage;
  stage.start({"--time-scale", "0.05"});
  Actor active = stage.ready_worker();
  active.expect("broker channel 1");
  Actor mute = stage.ready_worker();
  mute.say("mute");
  mute.process().wait_until_gone();
  Actor standby = stage.ready_worker();
  active.say("mute");
  standby.expect("activate 2");
  EXPECT_TRUE(active.process().is_gone());
  EXPECT_THAT(stage.log(), HasSubstr("it does not answer"));
}

// Whether lanewayd says so, which may be later than what its children do.
bool will_log(const Stage& stage, const std::string& text) {
  const SteadyClock clock;
  for (const TimePoint end = clock.now() + seconds(30); clock.now() < end;) {
    if (stage.log().find(text) != std::string::npos) return true;
    ::sched_yield();
  }
  return false;
}

// lanewayd goes on first, and finds all others stopped and silent for longer than any bound.
TEST(Supervisor, AServiceThatWasStoppedAndContinuedBlamesNobody) {
  Stage stage;
  // Time for this process to let all of them go on before 0.2 s are over.
  stage.start({"--time-scale", "0.2"});
  Actor broker = stage.serving_broker();
  Actor active = stage.ready_worker();
  active.expect("broker channel 1");
  Actor standby = stage.ready_worker();
  active.say("note 3 1 77 1000");
  broker.say("heartbeat");
  const std::vector<const Watched*> all = {&stage.daemon(), &broker.process(), &active.process(),
                                           &standby.process()};
  for (const Watched* one : all) one->kill(SIGSTOP);
  for (const Watched* one : all) one->wait_until_stopped();
  const SteadyClock clock;
  const TimePoint end = clock.now() + seconds(7);  // the longest bound is 6 s
  while (clock.now() < end) ::sched_yield();
  for (const Watched* one : all) one->kill(SIGCONT);
  active.say("note 3 0 78 5");
  broker.say("heartbeat");
  for (Actor* worker : {&active, &standby}) {
    worker->say("read");
    worker->expect("memory");
  }
  EXPECT_TRUE(will_log(stage, "all waits begin anew"));
  EXPECT_THAT(stage.log(), Not(HasSubstr("is given up")));
}

// Each of them takes longer than the window in which deaths count.
TEST(Supervisor, WorkersThatNeverGetReadyAreTheEnd) {
  Stage stage;
  stage.start({"--time-scale", "0.004"});
  EXPECT_EQ(stage.exit_code(), 1);
  EXPECT_THAT(stage.log(), HasSubstr("it did not get ready"));
  EXPECT_THAT(stage.log(), HasSubstr("workers die again and again"));
}

TEST(Supervisor, AStandbyThatCannotBeStartedIsNotTheEnd) {
  Stage stage;
  stage.start();
  Actor broker = stage.serving_broker();
  Actor active = stage.ready_worker();
  active.expect("broker channel 1");
  Actor standby = stage.ready_worker();
  std::filesystem::remove(stage.programs() + "/laneway-worker");
  standby.process().kill(SIGKILL);
  broker.expect("worker down " + standby.pid_text());
  active.say("read");
  active.expect("memory");
  while (stage.log().find("no other standby is started for 5.0 s") == std::string::npos) {
    ::sched_yield();
  }
  EXPECT_FALSE(stage.daemon().is_gone());
}

// Ten of them within the window; the worker that serves never stumbled.
TEST(Supervisor, StandbysThatDieDoNotEndTheService) {
  Stage stage;
  stage.start({"--time-scale", "0.1"});
  Actor broker = stage.serving_broker();
  Actor active = stage.ready_worker();
  active.expect("broker channel 1");
  for (int death = 0; death < 12; ++death) {
    broker.say("heartbeat");
    Actor standby = stage.ready_worker();
    broker.expect("worker up " + standby.pid_text() + " standby ready");
    standby.process().kill(SIGKILL);
    broker.expect("worker down " + standby.pid_text());
  }
  active.say("read");
  active.expect("memory");
}

// Workers that die again and again, but each of them has done something.
TEST(Supervisor, DeathsWithWorkInBetweenDoNotEndTheService) {
  Stage stage;
  stage.start({"--standby", "0", "--time-scale", "0.1"});
  Actor broker = stage.serving_broker();
  for (int death = 0; death < 12; ++death) {
    broker.say("heartbeat");
    Actor worker = stage.ready_worker();
    worker.expect("activate " + std::to_string(death + 1));
    worker.say("ended 1");
    worker.process().kill(SIGKILL);
    broker.expect("worker down " + worker.pid_text());
  }
  stage.ready_worker().expect("activate 13");
}

// Jobs go on without a broker, so one that dies again and again is not the end while they do.
TEST(Supervisor, ABrokersDeathsDoNotEndAServiceWhoseJobsGoOn) {
  Stage stage;
  stage.start({"--standby", "0", "--time-scale", "0.05"});
  Actor worker = stage.ready_worker();
  for (int death = 0; death < 12; ++death) {
    Actor broker = stage.broker();
    EXPECT_THAT(broker.next(), HasSubstr("start epoch " + std::to_string(death + 1)));
    if (death == 0) worker.expect("activate 1");
    worker.say("ended 1");
    worker.say("read");
    worker.expect("memory");
    broker.process().kill(SIGKILL);
  }
  EXPECT_THAT(stage.broker().next(), HasSubstr("start epoch 13"));
}
}  // namespace
}  // namespace laneway::testing
