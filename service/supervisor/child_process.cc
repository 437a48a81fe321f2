#include "service/supervisor/child_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "base/start_program.h"
#include "service/transport/supervised.h"

namespace laneway::service {
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
  const pid_t pid = start_program({.program = program,
                                   .environment = environment,
                                   .channel = channel.get(),
                                   .channel_at = kSupervisorDescriptor,
                                   .memory = memory.count()});
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
