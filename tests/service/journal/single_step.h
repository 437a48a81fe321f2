// single_step: a writer to shared memory that may die behind each of its machine instructions.
#pragma once

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace laneway::testing {

// Runs `steps` in a child, instruction by instruction; `look` sees the memory behind each. False
// when the system does not let a process be traced.
inline bool single_step(const std::function<void()>& steps, const std::function<void()>& look) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(9);
    ::raise(SIGSTOP);
    steps();
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return false;
  bool traced = true;
  do {
    look();
    traced = ::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0;
    if (traced) ::waitpid(child, &status, 0);
  } while (traced && WIFSTOPPED(status) && WSTOPSIG(status) != SIGSTOP);
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return traced;
}

}  // namespace laneway::testing
