// Shows that all workers of a service have one minor version of torch: a standby with another one
// never takes over, and a service whose every new worker has another one, or cannot be loaded,
// ends with a sentence that says so. With the real lanewayd and puppets for broker and workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/service/supervisor/stage.h"

namespace laneway::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A worker that says with which torch it is ready; it may be refused before it has reported that.
Actor worker_with(Stage& stage, const std::string& torch) {
  Actor worker = stage.worker();
  worker.expect("start");
  worker.tell("ready " + torch);
  return worker;
}

TEST(SupervisorTorch, TheBrokerIsToldOfEachWorkersTorch) {
  Stage stage;
  stage.start();
  Actor broker = stage.serving_broker();
  Actor active = worker_with(stage, "2.11.0 2.11.1");
  broker.expect("worker up " + active.pid_text() +
                " active ready epoch 1 connected torch 2.11.0 runs 2.11.1");
  Actor standby = worker_with(stage, "2.11.2 2.11.2");
  broker.expect("worker up " + standby.pid_text() +
                " standby ready epoch 0 connected torch 2.11.2 runs 2.11.2");
}

TEST(SupervisorTorch, AStandbyOfAnotherPatchReleaseTakesOverMemoryAndJournal) {
  Stage stage;
  stage.start();
  Actor broker = stage.serving_broker();
  Actor active = worker_with(stage, "2.11.0 2.11.0");
  active.expect("activate 1");
  active.say("write ab");
  Actor standby = worker_with(stage, "2.11.4 2.11.4");
  standby.expect("broker channel 1");
  active.process().kill(SIGKILL);
  standby.expect("activate 2");
  standby.say("read");
  EXPECT_EQ(standby.expect("memory"), "memory ab");
}

TEST(SupervisorTorch, AStandbyOfAnotherMinorIsRefusedAndTheServiceGoesOnWithoutOne) {
  Stage stage;
  stage.start({"--time-scale", "0.1"});
  Actor broker = stage.serving_broker();
  Actor active = worker_with(stage, "2.11.0 2.11.0");
  active.expect("broker channel 1");
  Actor standby = worker_with(stage, "2.12.1 2.12.1");
  broker.expect("worker down " + standby.pid_text());
  EXPECT_TRUE(standby.process().is_gone());
  active.say("read");
  active.expect("memory");
  EXPECT_THAT(stage.log(), AllOf(HasSubstr("the service goes on without a standby: it was built "
                                           "for torch 2.12.1, and the service began with torch "
                                           "2.11.0"),
                                 Not(HasSubstr("worker " + standby.pid_text() + " is active"))));
  // The next worker is the one that follows the active one, and no second standby before it.
  active.process().kill(SIGKILL);
  broker.expect("worker down " + active.pid_text());
  Actor successor = worker_with(stage, "2.11.3 2.11.3");
  successor.expect("activate 2");
  // With it standbys are started again: who replaced torch may have put it back.
  Actor next = worker_with(stage, "2.11.3 2.11.3");
  broker.expect("worker up " + next.pid_text() + " standby ready");
}

TEST(SupervisorTorch, AStandbyThatIsReadyTakesOverWhenAnUnfitOneEndsWithTheActiveWorker) {
  Stage stage;
  stage.start({"--standby", "2"});
  Actor broker = stage.serving_broker();
  Actor active = worker_with(stage, "2.11.0 2.11.0");
  active.expect("broker channel 1");
  Actor standby = worker_with(stage, "2.11.0 2.11.0");
  standby.expect("broker channel 1");
  Actor unfit = stage.worker();
  unfit.expect("start");
  // lanewayd finds both ends at once, the active worker's first.
  stage.daemon().kill(SIGSTOP);
  stage.daemon().wait_until_stopped();
  unfit.say("unfit it-has-loaded-torch-2.12.1");
  active.process().kill(SIGKILL);
  unfit.process().kill(SIGKILL);
  active.process().wait_until_gone();
  unfit.process().wait_until_gone();
  stage.daemon().kill(SIGCONT);
  standby.expect("activate 2");
  Actor next = worker_with(stage, "2.11.0 2.11.0");
  broker.expect("worker up " + next.pid_text() + " standby ready");
  EXPECT_THAT(stage.log(), Not(HasSubstr("the service ends")));
}

TEST(SupervisorTorch, AServiceWhoseTorchWasReplacedEndsWithBothVersions) {
  Stage stage;
  stage.start({"--standby", "0"});
  Actor broker = stage.serving_broker();
  Actor active = worker_with(stage, "2.11.0 2.11.0");
  active.expect("broker channel 1");
  active.process().kill(SIGKILL);
  Actor other = worker_with(stage, "2.12.1 2.12.1");
  EXPECT_THAT(broker.expect("stop"),
              AllOf(HasSubstr("no worker can serve it"), HasSubstr("built for torch 2.12.1"),
                    HasSubstr("the service began with torch 2.11.0"), HasSubstr("start lanewayd")));
  broker.say("stopped");
  broker.leave(0);
  EXPECT_EQ(stage.exit_code(), 1);
  EXPECT_THAT(stage.log(), Not(HasSubstr("die again and again")));
}

TEST(SupervisorTorch, AWorkerThatIsUnfitFromTheBeginningIsNotTriedAgain) {
  Stage stage;
  stage.start();
  Actor broker = stage.serving_broker();
  Actor worker = stage.worker();
  worker.expect("start");
  worker.tell("unfit it-has-loaded-torch-2.12.1");
  EXPECT_EQ(broker.expect("stop"), "stop no worker can serve it: it-has-loaded-torch-2.12.1");
  broker.say("stopped");
  broker.leave(0);
  EXPECT_EQ(stage.exit_code(), 1);
}

TEST(SupervisorTorch, AProgramThatCannotBeLoadedAnyMoreEndsTheServiceInWords) {
  Stage stage;
  stage.start({"--standby", "0", "--time-scale", "0.1"});
  Actor broker = stage.serving_broker();
  Actor active = worker_with(stage, "2.11.0 2.11.0");
  active.expect("broker channel 1");
  const std::string program = stage.programs() + "/laneway-worker";
  std::filesystem::remove(program);
  std::ofstream(program) << "#!/bin/sh\nexit 127\n";  // as the loader ends it without a library
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  active.process().kill(SIGKILL);
  EXPECT_THAT(broker.expect("stop"),
              AllOf(HasSubstr("their program cannot be loaded"), HasSubstr("was torch or Laneway "
                                                                           "replaced")));
  broker.say("stopped");
  broker.leave(0);
  EXPECT_EQ(stage.exit_code(), 1);
  EXPECT_THAT(stage.log(), HasSubstr("exit code 127"));
}

}  // namespace
}  // namespace laneway::testing
