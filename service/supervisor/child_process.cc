#include "service/supervisor/child_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "service/transport/supervised.h"

namespace laneway::service {
namespace {

struct Launch {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int channel;
  int no_input;
  pid_t parent;
  rlim_t memory;  // 0: the parent's limit
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
  ::dup2(launch.no_input, STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  if (launch.channel == kSupervisorDescriptor) {
    ::fcntl(launch.channel, F_SETFD, 0);
  } else {
    ::dup2(launch.channel, kSupervisorDescriptor);
  }
  ::syscall(SYS_close_range, kSupervisorDescriptor + 1, ~0U, 0U);
  if (launch.memory > 0) limit_memory(launch.memory);
  ::execve(launch.program, launch.arguments, launch.environment);
  ::_exit(kExitNotLoaded);
}

}  // namespace

std::string ProcessEnd::text() const {
  if (!is_known) return "and something else in this process waited for it";
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  if (!WIFSIGNALED(status)) return "wait status " + std::to_string(status);
  const int number = WTERMSIG(status);
  const char* name = ::strsignal(number);
  return "signal " + std::to_string(number) + (name ? " (" + std::string(name) + ")" : "");
}

Result<ChildProcess> ChildProcess::spawn(const std::string& program,
                                         const std::vector<std::string>& environment,
                                         Descriptor channel, Bytes memory) {
  if (::access(program.c_str(), X_OK) != 0) {
    return Error{ErrorCode::failed, "program " + program +
                                        " cannot be started: " + std::strerror(errno) +
                                        "; it belongs beside lanewayd: build or install it"};
  }
  const Descriptor no_input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!no_input.valid()) {
    return Error{ErrorCode::failed, std::string("/dev/null: ") + std::strerror(errno)};
  }
  std::string name = program;
  const std::array<char*, 2> arguments = {name.data(), nullptr};
  std::vector<std::string> variables = environment;
  std::vector<char*> pointers;
  pointers.reserve(variables.size() + 1);
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  const Launch launch{.program = name.c_str(),
                      .arguments = arguments.data(),
                      .environment = pointers.data(),
                      .channel = channel.get(),
                      .no_input = no_input.get(),
                      .parent = ::getpid(),
                      .memory = static_cast<rlim_t>(memory.count())};
  const pid_t pid = ::_Fork();  // without what others registered for forks: no lock is taken
  if (pid == 0) become(launch);
  if (pid < 0) {
    return Error{ErrorCode::failed, "no process for " + program + ": " + std::strerror(errno)};
  }
  ::setpgid(pid, pid);  // the child does it too: whoever comes first
  return ChildProcess(pid);
}

ChildProcess::~ChildProcess() {
  if (pid_ == 0) return;
  kill();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool ChildProcess::is_stopped() const {
  if (pid_ <= 0) return false;
  std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
  std::string line;
  std::getline(file, line);
  // "PID (NAME) STATE …"; the name may have blanks and parentheses.
  const size_t name_end = line.rfind(')');
  return name_end != std::string::npos && name_end + 2 < line.size() && line[name_end + 2] == 'T';
}

void ChildProcess::kill() {
  if (pid_ <= 0 || state() == State::waited_for) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);  // it may have gone to another group
}

ChildProcess::State ChildProcess::state() const {
  siginfo_t over{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &over, WEXITED | WNOHANG | WNOWAIT) != 0) {
    if (errno != EINTR) return State::waited_for;
  }
  return over.si_pid == 0 ? State::running : State::ended;
}

std::optional<ProcessEnd> ChildProcess::reap() {
  if (pid_ == 0 || state() == State::running) return std::nullopt;
  kill();  // what is left of its group: until it is reaped, that is nobody else's
  ProcessEnd end;
  pid_t got = -1;
  while ((got = ::waitpid(pid_, &end.status, 0)) < 0 && errno == EINTR) {
  }
  end.is_known = got == pid_;
  pid_ = 0;
  return end;
}

std::optional<ProcessEnd> ChildProcess::reap_within(Duration patience) {
  if (pid_ == 0) return std::nullopt;
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (process.get() >= 0) {
    pollfd entry{.fd = process.get(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, static_cast<int>(patience.seconds() * 1e3));
  }
  return reap();
}

}  // namespace laneway::service
