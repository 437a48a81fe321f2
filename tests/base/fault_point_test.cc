// Shows that an armed point kills the process at exactly the pass that was asked for, that others
// pass, that it does what else was asked for, and that text which arms nothing is refused by name.
// The killed ones are forked children.
#include "base/fault_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

namespace laneway {
namespace {

// Passes points in a child armed with `text`; how often it came through, or -1 when it was not
// killed but came to the end.
int passes_until_killed(const char* text, int passes) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (!arm_fault_points(text).ok()) _exit(3);
    for (int i = 0; i < passes; ++i) {
      fault_point("broker.other");
      fault_point("broker.job_held");
      if (write(ends[1], "x", 1) != 1) _exit(4);
    }
    _exit(0);
  }
  close(ends[1]);
  int through = 0;
  char byte = 0;
  while (read(ends[0], &byte, 1) == 1) ++through;
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return through;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return -1;
}

TEST(FaultPoint, KillsAtThePassThatWasAskedFor) {
  EXPECT_EQ(passes_until_killed("broker.job_held", 3), 0);
  EXPECT_EQ(passes_until_killed("broker.job_held:3", 3), 2);
  EXPECT_EQ(passes_until_killed("worker.x,broker.job_held:2", 3), 1);
}

TEST(FaultPoint, OthersPass) {
  EXPECT_EQ(passes_until_killed("", 3), -1);
  EXPECT_EQ(passes_until_killed("broker.job_held:4", 3), -1);
  EXPECT_EQ(passes_until_killed("broker.job_hel,worker.job_held", 3), -1);
}

TEST(FaultPoint, StopsAndGoesOnWhenItIsContinued) {
  const pid_t child = fork();
  if (child == 0) {
    if (!arm_fault_points("broker.job_held:2=stop").ok()) _exit(3);
    for (int i = 0; i < 3; ++i) fault_point("broker.job_held");
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  ASSERT_EQ(kill(child, SIGCONT), 0);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// How a child that passes the point ends.
int end_of_child(const char* text) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_CORE, &none);
    for (const int each : {SIGSEGV, SIGABRT}) std::signal(each, SIG_DFL);  // not a sanitizer's
    if (!arm_fault_points(text).ok()) _exit(3);
    fault_point("worker.node");
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -1 - WEXITSTATUS(status);
}

TEST(FaultPoint, RaisesTheSignalThatWasAskedFor) {
  EXPECT_EQ(end_of_child("worker.node=segv"), SIGSEGV);
  EXPECT_EQ(end_of_child("worker.node:1=abrt"), SIGABRT);
  EXPECT_EQ(end_of_child("worker.node:2=abrt"), -1);
  EXPECT_EQ(end_of_child("worker.node=exit"), -2) << "exit code 1";
}

// The thread that hangs stays, others pass.
TEST(FaultPoint, HangsOneThreadAndNoOther) {
  const pid_t child = fork();
  if (child == 0) {
    if (!arm_fault_points("worker.node=hang,broker.other:1=hang").ok()) _exit(3);
    std::thread([] {
      fault_point("worker.node");
      _exit(4);
    }).detach();
    std::thread([] {
      fault_point("broker.other");
      _exit(4);
    }).detach();
    for (int passes = 0; passes < 1000; ++passes) fault_point("worker.nodes");
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// At the pass that was asked for and at all later ones.
TEST(FaultPoint, StaysAsLongAsAFileExists) {
  const std::string gate = ::testing::TempDir() + "gate-" + std::to_string(getpid());
  ASSERT_TRUE(arm_fault_points("worker.node:2=while:" + gate));
  std::ofstream(gate).close();
  fault_point("worker.node");
  fault_point("worker.nodes");
  for (int round = 0; round < 2; ++round) {
    std::ofstream(gate).close();
    std::atomic<bool> gone{false};
    std::thread stays([&gone] {
      fault_point("worker.node");
      EXPECT_TRUE(gone);
    });
    while (access((gate + ".here").c_str(), F_OK) != 0) std::this_thread::yield();
    EXPECT_EQ(unlink((gate + ".here").c_str()), 0);
    gone = true;
    EXPECT_EQ(unlink(gate.c_str()), 0);
    stays.join();
  }
  ASSERT_TRUE(arm_fault_points(""));
}

TEST(FaultPoint, TextThatNamesNoneIsRefused) {
  for (const char* text :
       {"a.b=while", "a.b=while:", "a.b=hang:x", "broker", ".x", "x.", "a.b:0", "a.b:x", "a.b:1x",
        "a.b,,c.d", "a.b=", "a.b=kill", "a.b=stop:2", "=stop", "a.b=term", "a.b=segv:2"}) {
    const Status status = arm_fault_points(text);
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(status.error().message, ::testing::HasSubstr("PROGRAM.POINT:nth"));
  }
}

}  // namespace
}  // namespace laneway
