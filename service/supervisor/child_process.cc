#include "service/supervisor/child_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/check.h"
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
};

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
  ::execve(launch.program, launch.arguments, launch.environment);
  ::_exit(kExitNotLoaded);
}

}  // namespace

std::string ProcessEnd::text() const {
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  if (!WIFSIGNALED(status)) return "wait status " + std::to_string(status);
  const int number = WTERMSIG(status);
  const char* name = ::strsignal(number);
  return "signal " + std::to_string(number) + (name ? " (" + std::string(name) + ")" : "");
}

Result<ChildProcess> ChildProcess::spawn(const std::string& program,
                                         const std::vector<std::string>& environment,
                                         Descriptor channel) {
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
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  const Launch launch{.program = name.c_str(),
                      .arguments = arguments.data(),
                      .environment = pointers.data(),
                      .channel = channel.get(),
                      .no_input = no_input.get(),
                      .parent = ::getpid()};
  const pid_t pid = ::fork();
  if (pid == 0) become(launch);
  if (pid < 0) {
    return Error{ErrorCode::failed, "no process for " + program + ": " + std::strerror(errno)};
  }
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
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

std::optional<ProcessEnd> ChildProcess::reap() {
  ProcessEnd end;
  const pid_t got = pid_ == 0 ? 0 : ::waitpid(pid_, &end.status, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return std::nullopt;
  LW_CHECK(got == pid_, "a child is reaped by its owner alone");
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
