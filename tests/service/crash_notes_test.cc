// Shows which signals are noted as a lane's, and that the process still dies of them: what a lane's
// thread, or one that it started, brings upon itself, also when its stack is used up. What another
// thread does, or another process sends, is not. The ones that die are forked children.
#include "service/worker/common/crash_notes.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <thread>

#include "tests/service/journal/journal_file.h"

namespace laneway::service {
namespace {

using testing::JournalFile;

constexpr LaneId kLane(3);

struct End {
  uint32_t noted = 0;
  int signal = 0;  // that the process died of
  int code = 0;    // that it exited with
};

// Runs `act` in a child whose journal is the test's. Handlers of a sanitizer are left out, which
// would end the process in a way of their own.
End end_of(const std::function<void()>& act, const std::function<void(pid_t)>& meanwhile = {}) {
  const JournalFile file;
  const auto journal = file.map().value();
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_CORE, &none);
    for (const int each : {SIGSEGV, SIGFPE, SIGABRT}) std::signal(each, SIG_DFL);
    const CrashNotes notes(*journal);
    act();
    ::_exit(0);
  }
  if (meanwhile) meanwhile(child);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return {.noted = journal->notes(kLane).signal.load(),
          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          .code = WIFEXITED(status) ? WEXITSTATUS(status) : 0};
}

void in_thread(const std::function<void()>& act) { std::thread(act).join(); }

void in_lane(const std::function<void()>& act) {
  in_thread([&] {
    const LaneThread thread(kLane);
    act();
  });
}

// A sanitizer would report the write and end the process before the processor faults.
__attribute__((no_sanitize("undefined", "address"))) void fault() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
}

// NOLINTNEXTLINE(misc-no-recursion): until there is no stack
int sink(int depth) {
  volatile char room[4096];
  if (depth < 0) return 0;
  room[depth % 4096] = static_cast<char>(depth);
  return sink(depth + 1) + room[0];
}

void expect_noted(const End& end, int signal) {
  EXPECT_EQ(end.noted, static_cast<uint32_t>(signal));
  EXPECT_EQ(end.signal, signal);
}

TEST(CrashNotes, ALanesThreadIsNotedAndTheProcessDies) {
  expect_noted(end_of([] { in_lane(fault); }), SIGSEGV);
  expect_noted(end_of([] { in_lane([] { ::raise(SIGFPE); }); }), SIGFPE);
  expect_noted(end_of([] { in_lane([] { std::abort(); }); }), SIGABRT);
}

TEST(CrashNotes, AThreadWithoutStackIsNoted) {
  expect_noted(end_of([] { in_lane([] { (void)sink(0); }); }), SIGSEGV);
}

TEST(CrashNotes, AThreadThatALaneStartedIsNoted) {
  expect_noted(end_of([] { in_lane([] { in_thread(fault); }); }), SIGSEGV);
}

TEST(CrashNotes, AnExitInALanesThreadIsNotedAndKeepsItsCode) {
  for (const bool in_team : {false, true}) {
    const End end = end_of([in_team] {
      in_lane([in_team] { in_team ? in_thread([] { std::exit(7); }) : std::exit(7); });
    });
    EXPECT_EQ(end.noted, kNotedExit);
    EXPECT_EQ(end.code, 7);
  }
}

TEST(CrashNotes, OtherThreadsBlameNobody) {
  const End end = end_of([] { in_thread(fault); });
  EXPECT_EQ(end.noted, 0U);
  EXPECT_EQ(end.signal, SIGSEGV);
  const End exit = end_of([] { in_thread([] { std::exit(3); }); });
  EXPECT_EQ(exit.noted, 0U);
  EXPECT_EQ(exit.code, 3);
}

TEST(CrashNotes, WhatAnotherProcessSendsBlamesNobody) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const auto act = [&] {
    sigset_t segv;
    ::sigemptyset(&segv);
    ::sigaddset(&segv, SIGSEGV);
    ::pthread_sigmask(SIG_BLOCK, &segv, nullptr);  // only the lane's thread takes it
    in_lane([&] {
      ::pthread_sigmask(SIG_UNBLOCK, &segv, nullptr);
      if (::write(ready[1], "x", 1) == 1) ::pause();
    });
  };
  const End end = end_of(act, [&](pid_t child) {
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    EXPECT_EQ(::kill(child, SIGSEGV), 0);
  });
  EXPECT_EQ(end.noted, 0U);
  EXPECT_EQ(end.signal, SIGSEGV);
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace laneway::service
