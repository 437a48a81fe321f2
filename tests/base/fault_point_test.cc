// Shows that an armed point kills the process at exactly the pass that was asked for, that others
// pass, and that text which arms nothing is refused by name. The killed ones are forked children.
#include "base/fault_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

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

TEST(FaultPoint, TextThatNamesNoneIsRefused) {
  for (const char* text : {"broker", ".x", "x.", "a.b:0", "a.b:x", "a.b:1x", "a.b,,c.d"}) {
    const Status status = arm_fault_points(text);
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(status.error().message, ::testing::HasSubstr("PROGRAM.POINT:nth"));
  }
}

}  // namespace
}  // namespace laneway
