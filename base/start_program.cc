#include "base/start_program.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

extern char** environ;

namespace laneway {
namespace {

struct Launch {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int channel;
  int channel_at;
  int no_input;
  int failure;  // where errno is written if the program cannot be run; -1: nowhere
  pid_t parent;
  rlim_t memory;
};

// Private writable memory counts: heaps, stacks. Libraries that are mapped do not.
void limit_memory(rlim_t bytes) {
  const rlimit data{bytes, bytes};
  ::setrlimit(RLIMIT_DATA, &data);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
}

// In the child, between fork and exec: only calls that are allowed there.
[[noreturn]] void become(const Launch& launch) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launch.parent) ::_exit(kExitNotLoaded);  // it died before the line above
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  // Above all that are given, so that none of them is overwritten before it is where it belongs.
  const int above = launch.channel_at + 8;
  const int channel = ::fcntl(launch.channel, F_DUPFD_CLOEXEC, above);
  const int failure = ::fcntl(launch.failure, F_DUPFD_CLOEXEC, above);
  ::dup2(::fcntl(launch.no_input, F_DUPFD_CLOEXEC, above), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::dup2(channel, launch.channel_at);
  ::syscall(SYS_close_range, launch.channel_at + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  if (launch.memory > 0) limit_memory(launch.memory);
  ::execve(launch.program, launch.arguments, launch.environment);
  const int number = errno;
  // Nobody is left to be told if this fails.
  [[maybe_unused]] const ssize_t written = ::write(failure, &number, sizeof(number));
  ::_exit(kExitNotLoaded);
}

// What the child wrote before it ended; 0: it runs the program.
int failure_in(int descriptor) {
  int number = 0;
  ssize_t got = 0;
  do {
    got = ::read(descriptor, &number, sizeof(number));
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof(number)) ? number : 0;
}

// Ends the descriptors, and leaves errno as it was.
void close_all(std::array<int, 2>& descriptors) {
  const int before = errno;
  for (int& descriptor : descriptors) {
    if (descriptor >= 0) ::close(descriptor);
    descriptor = -1;
  }
  errno = before;
}

}  // namespace

pid_t start_program(const ProgramStart& start, int* not_run) {
  std::array<int, 2> no_input{::open("/dev/null", O_RDONLY | O_CLOEXEC), -1};
  std::array<int, 2> failure{-1, -1};
  if (no_input[0] < 0 || (not_run != nullptr && ::pipe2(failure.data(), O_CLOEXEC) != 0)) {
    close_all(no_input);
    return -1;
  }
  std::string name = start.program;
  const std::array<char*, 2> arguments = {name.data(), nullptr};
  std::vector<std::string> variables = start.environment.value_or(std::vector<std::string>());
  std::vector<char*> pointers;
  pointers.reserve(variables.size() + 1);
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  const Launch launch{.program = name.c_str(),
                      .arguments = arguments.data(),
                      .environment = start.environment ? pointers.data() : environ,
                      .channel = start.channel,
                      .channel_at = start.channel_at,
                      .no_input = no_input[0],
                      .failure = failure[1],
                      .parent = ::getpid(),
                      .memory = static_cast<rlim_t>(start.memory)};
  const pid_t pid = ::_Fork();  // without what others registered for forks: no lock is taken
  if (pid == 0) become(launch);
  if (pid > 0) ::setpgid(pid, pid);  // the child does it too: whoever comes first
  close_all(no_input);
  if (pid > 0 && not_run != nullptr) {
    ::close(failure[1]);
    failure[1] = -1;
    *not_run = failure_in(failure[0]);
  }
  close_all(failure);
  return pid;
}

}  // namespace laneway
