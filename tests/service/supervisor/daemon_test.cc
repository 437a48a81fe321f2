// lanewayd from outside: how it starts, who is let in beside it, how it ends, and that nothing of
// it is left.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "service/transport/unix_socket.h"
#include "tests/service/supervisor/stage.h"

namespace laneway::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Everybody is there and serves.
struct Cast {
  explicit Cast(Stage& stage)
      : broker(stage.serving_broker()),
        active(stage.ready_worker()),
        standby(stage.ready_worker()) {
    broker.expect("worker up " + standby.pid_text() + " standby ready");
    stage.printed_line();
  }
  bool is_gone() const {
    return broker.process().is_gone() && active.process().is_gone() && standby.process().is_gone();
  }

  Actor broker;
  Actor active;
  Actor standby;
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class DaemonSignal : public ::testing::TestWithParam<int> {};

TEST_P(DaemonSignal, EndsTheJobsThenTheWorkersThenTheBrokerAndLeavesNothing) {
  Stage stage;
  stage.start();
  Cast cast(stage);
  EXPECT_THAT(stage.files(), ElementsAre("laneway.sock", "laneway.sock.fd", "laneway.sock.lock"));
  stage.daemon().kill(GetParam());
  cast.broker.expect("stop");
  cast.broker.say("stopped");
  cast.active.expect("stop");
  cast.standby.expect("stop");
  cast.active.leave(0);
  cast.standby.leave(0);
  cast.broker.expect("hung up");
  cast.broker.leave(0);
  EXPECT_EQ(stage.exit_code(), 0);
  EXPECT_THAT(stage.files(), ElementsAre());
}
INSTANTIATE_TEST_SUITE_P(All, DaemonSignal, ::testing::Values(SIGTERM, SIGINT));

TEST(Daemon, OpensItsLogAnewAtSighupAndGoesOn) {
  Stage stage;
  const std::string log = stage.programs() + ".log";
  stage.start({"--log-file", log});
  Cast cast(stage);
  std::filesystem::rename(log, log + ".1");
  stage.daemon().kill(SIGHUP);
  cast.broker.expect("reopen log");
  EXPECT_THAT(text_of(log), HasSubstr("signal 1: the log goes on here"));
  // A folder in its place: it says so where it wrote before, and goes on.
  std::filesystem::rename(log, log + ".2");
  std::filesystem::create_directory(log);
  stage.daemon().kill(SIGHUP);
  cast.broker.expect("reopen log");
  EXPECT_THAT(text_of(log + ".2"), HasSubstr("cannot be opened"));
  EXPECT_FALSE(cast.is_gone());
}

TEST(Daemon, EndsOnAClientsRequest) {
  Stage stage;
  stage.start();
  Cast cast(stage);
  cast.broker.say("shutdown");
  cast.broker.expect("stop");
  cast.broker.leave(0);  // it may go without a word
  cast.active.expect("stop");
  cast.active.leave(0);
  cast.standby.leave(0);
  EXPECT_EQ(stage.exit_code(), 0);
}

TEST(Daemon, KillsWhoeverDoesNotLeaveInTime) {
  Stage stage;
  stage.start({"--time-scale", "0.05"});
  Actor broker = stage.serving_broker();
  broker.say("deaf");
  stage.daemon().kill(SIGTERM);
  EXPECT_EQ(stage.exit_code(), 0);
  EXPECT_TRUE(broker.process().is_gone());
}

TEST(Daemon, ASecondInterruptDoesNotWait) {
  Stage stage;
  stage.start();
  Cast cast(stage);
  stage.daemon().kill(SIGINT);
  cast.broker.expect("stop");
  stage.daemon().kill(SIGINT);
  EXPECT_EQ(stage.exit_code(), 0);
  EXPECT_TRUE(cast.is_gone());
  EXPECT_THAT(stage.files(), ElementsAre());
}

TEST(Daemon, EndsWhileEverybodyIsStillStarting) {
  Stage stage;
  stage.start();
  Actor broker = stage.broker();
  Actor worker = stage.worker();
  stage.daemon().kill(SIGTERM);
  broker.expect("stop");
  broker.say("stopped");
  worker.expect("stop");
  worker.leave(0);
  broker.leave(0);
  EXPECT_EQ(stage.exit_code(), 0);
}

TEST(Daemon, EndsWhileABrokerIsWaitedFor) {
  Stage stage;
  stage.start({"--standby", "0", "--time-scale", "0.1"});
  Actor worker = stage.ready_worker();
  for (int death = 0; death < 8; ++death) stage.broker().process().kill(SIGKILL);
  stage.daemon().kill(SIGTERM);  // before the ninth broker is due
  worker.expect("stop");
  worker.leave(0);
  EXPECT_EQ(stage.exit_code(), 0);
}

TEST(Daemon, ABrokerThatDiesWhileItEndsTheJobsHoldsNobodyUp) {
  Stage stage;
  stage.start();
  Cast cast(stage);
  stage.daemon().kill(SIGTERM);
  cast.broker.expect("stop");
  cast.broker.process().kill(SIGKILL);
  cast.active.expect("stop");
  cast.active.process().kill(SIGKILL);
  cast.standby.leave(0);
  EXPECT_EQ(stage.exit_code(), 0);
}

TEST(Daemon, KilledTakesEverybodyWithItAndTheNextOneCleansUp) {
  Stage stage;
  stage.start();
  {
    Cast cast(stage);
    stage.daemon().kill(SIGKILL);
    EXPECT_EQ(stage.exit_code(), -SIGKILL);
    for (const Actor* actor : {&cast.broker, &cast.active, &cast.standby}) {
      actor->process().wait_until_gone();
    }
  }
  EXPECT_THAT(stage.files(), ElementsAre("laneway.sock", "laneway.sock.fd", "laneway.sock.lock"));
  stage.start();
  const Cast again(stage);
  EXPECT_TRUE(service::connect_unix(stage.socket()).ok());
}

TEST(Daemon, ASecondOneAtTheSameAddressSaysWhoIsThere) {
  Stage stage;
  stage.start();
  const Cast cast(stage);
  const auto [code, said] =
      stage.run({"--address", stage.address(), "--pool", "16MiB", "--programs", stage.programs()});
  EXPECT_EQ(code, 5);
  EXPECT_THAT(said, HasSubstr("already running: pid " + std::to_string(stage.daemon().pid()) +
                              " at " + stage.address()));
  EXPECT_TRUE(service::connect_unix(stage.socket()).ok());
}

TEST(Daemon, SocketsAreListeningBeforeTheBrokerIsThere) {
  Stage stage;
  stage.start();
  const Actor broker = stage.broker();
  EXPECT_TRUE(service::connect_unix(stage.socket()).ok());
  EXPECT_TRUE(service::connect_unix(stage.socket() + ".fd").ok());
}

TEST(Daemon, RefusesAFolderThatOthersCanWrite) {
  Stage stage;
  const std::string folder = std::filesystem::path(stage.socket()).parent_path().string();
  std::filesystem::create_directory(folder);
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  const auto [code, said] =
      stage.run({"--address", stage.address(), "--pool", "16MiB", "--programs", stage.programs()});
  EXPECT_EQ(code, 1);
  EXPECT_THAT(said, HasSubstr("can be written by others"));
}

TEST(Daemon, RefusesAPoolThatIsLargerThanTheMemory) {
  const Stage stage;
  const auto [code, said] = stage.run(
      {"--address", stage.address(), "--pool", "1000000GiB", "--programs", stage.programs()});
  EXPECT_EQ(code, 2);
  EXPECT_THAT(said, HasSubstr("are free here. Give --pool"));
}

TEST(Daemon, ProgramsThatAreNotThereAreNamed) {
  const Stage stage;
  const std::string worker = stage.programs() + "/laneway-worker";
  const auto [code, said] = stage.run({"--address", stage.address(), "--pool", "16MiB",
                                       "--programs", "/nowhere", "--worker", worker});
  EXPECT_EQ(code, 1);
  EXPECT_THAT(said, HasSubstr("/nowhere/laneway-broker cannot be started"));
  EXPECT_THAT(stage.files(), ElementsAre());
}

TEST(Daemon, AWorkerThatIsNotThereIsNamedBeforeAnythingIsMade) {
  const Stage stage;
  const auto [code, said] =
      stage.run({"--address", stage.address(), "--pool", "16MiB", "--programs", "/nowhere"});
  EXPECT_EQ(code, 2);
  EXPECT_THAT(said, HasSubstr("--worker /nowhere/laneway-worker: No such file or directory: give"));
  const std::filesystem::path socket = stage.address().substr(std::strlen("ipc://"));
  EXPECT_FALSE(std::filesystem::exists(socket.parent_path()));
  const auto [folder_code, folder_said] =
      stage.run({"--address", stage.address(), "--pool", "16MiB", "--worker", stage.programs()});
  EXPECT_EQ(folder_code, 2);
  EXPECT_THAT(folder_said, HasSubstr("--worker " + stage.programs() + ": Is a directory: give"));
}

// A package has a worker for each torch, none of them beside lanewayd.
TEST(Daemon, TheWorkerMayLieElsewhere) {
  Stage stage;
  const std::string elsewhere = stage.programs() + "/torch-2.11";
  std::filesystem::create_directory(elsewhere);
  std::filesystem::rename(stage.programs() + "/laneway-worker", elsewhere + "/laneway-worker");
  stage.start({"--worker", elsewhere + "/laneway-worker"});
  Actor broker = stage.serving_broker();
  Actor worker = stage.ready_worker();
  worker.expect("broker channel 1");
}

TEST(Daemon, TellsTheServiceManagerThatItIsReady) {
  Stage stage;
  const ScratchFolder folder;
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  const std::string path = folder.path() + "/notify";
  std::memcpy(where.sun_path, path.data(), path.size());
  const service::Descriptor manager(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(manager.get(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)), 0);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  stage.start();
  ::unsetenv("NOTIFY_SOCKET");
  const Cast cast(stage);  // has seen the ready line, which comes before the message
  char text[64] = {};
  EXPECT_GT(::recv(manager.get(), text, sizeof(text) - 1, 0), 0);
  EXPECT_STREQ(text, "READY=1");
}

}  // namespace
}  // namespace laneway::testing
