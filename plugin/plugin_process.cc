#include "plugin/plugin_process.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/start_program.h"
#include "plugin/frames.h"

namespace laneway::plugin {
namespace {

// Ends its descriptor with its scope.
class Closing {
 public:
  explicit Closing(int descriptor) : descriptor_(descriptor) {}
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;
  ~Closing() { close(); }
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }
  void close() {
    if (descriptor_ >= 0) ::close(release());
  }

 private:
  int descriptor_;
};

Error cannot_start(const std::string& file, const std::string& why) {
  return {ErrorCode::invalid_argument, "policy " + file + " " + why};
}

std::string end_text(int status) {
  if (WIFEXITED(status)) return "it ended with exit code " + std::to_string(WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  const char* name = ::strsignal(number);
  return "signal " + std::to_string(number) + (name ? " (" + std::string(name) + ")" : "") +
         " ended it";
}

}  // namespace

Status check_program(const std::string& file) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0) {
    return cannot_start(file, std::string("cannot be started: ") + std::strerror(errno));
  }
  if (!S_ISREG(found.st_mode)) return cannot_start(file, "is no file: name an executable file");
  if (::access(file.c_str(), X_OK) != 0) {
    return cannot_start(file, "is not executable: chmod +x " + file);
  }
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return cannot_start(file, "may be changed by others than its owner: chmod go-w " + file);
  }
  if (found.st_uid != ::geteuid() && found.st_uid != 0) {
    return cannot_start(file, "belongs to user " + std::to_string(found.st_uid) +
                                  ", who may change it: use a copy of your own");
  }
  return {};
}

Result<PluginProcess> PluginProcess::start(const std::string& file) {
  if (Status fine = check_program(file); !fine) return fine.error();
  std::array<int, 2> sockets{-1, -1};
  const bool has_sockets =
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) == 0;
  Closing ours(sockets[0]);
  const Closing theirs(sockets[1]);
  int number = 0;
  const pid_t pid = !has_sockets ? -1
                                 : start_program({.program = file,
                                                  .environment = {},
                                                  .channel = theirs.get(),
                                                  .channel_at = kDescriptor,
                                                  .memory = kMaxMemory},
                                                 &number);
  if (pid < 0) {
    return Error{ErrorCode::failed,
                 "no descriptors or no process for policy " + file + ": " + std::strerror(errno)};
  }
  PluginProcess process(pid, ours.release());
  if (number == 0) return process;
  const char* remedy = number == ENOEXEC  ? ": begin it with #!/usr/bin/env python3, or compile it"
                       : number == ENOENT ? ": the program behind its #! is not there"
                                          : "";
  return cannot_start(file, std::string("cannot be started: ") + std::strerror(number) + remedy);
}

PluginProcess::PluginProcess(PluginProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), descriptor_(std::exchange(other.descriptor_, -1)) {}

PluginProcess::~PluginProcess() {
  if (pid_ != 0) end(Duration());
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status PluginProcess::write(std::vector<std::byte>& bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.erase(bytes.begin(), bytes.begin() + sent);
    } else if (errno == EAGAIN) {
      return {};
    } else if (errno != EINTR) {
      return Error{ErrorCode::unavailable, "it closed descriptor 3"};
    }
  }
  return {};
}

Result<size_t> PluginProcess::read(std::span<std::byte> buffer) const {
  while (true) {
    const ssize_t got = ::recv(descriptor_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) return static_cast<size_t>(got);
    if (got < 0 && errno == EAGAIN) return size_t{0};
    if (got < 0 && errno == EINTR) continue;
    return Error{ErrorCode::unavailable, "it closed descriptor 3"};
  }
}

bool PluginProcess::wait(bool to_write, Duration most) const {
  const auto events = static_cast<short>(to_write ? POLLIN | POLLOUT : POLLIN);
  pollfd entry{.fd = descriptor_, .events = events, .revents = 0};
  constexpr int64_t kNsPerMs = 1'000'000;
  const int64_t ms = std::clamp<int64_t>((most.ns() + kNsPerMs - 1) / kNsPerMs, 0, INT32_MAX);
  return ::poll(&entry, 1, static_cast<int>(ms)) > 0;
}

std::string PluginProcess::end(Duration moment) {
  LW_CHECK(pid_ != 0, "a program ends once");
  if (moment > Duration()) {
    const Closing process(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    pollfd entry{.fd = process.get(), .events = POLLIN, .revents = 0};
    ::poll(&entry, process.get() >= 0 ? 1 : 0, static_cast<int>(moment.ns() / 1'000'000));
  }
  siginfo_t was{};
  constexpr int kLook = WEXITED | WSTOPPED | WNOHANG | WNOWAIT;
  const bool changed =
      ::waitid(P_PID, static_cast<id_t>(pid_), &was, kLook) == 0 && was.si_pid == pid_;
  // Not reaped yet, so that its number is nobody else's: also what is left of its group.
  ::kill(-pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  if (!changed) return "";
  return was.si_code == CLD_STOPPED ? "it is stopped by a signal" : end_text(status);
}

}  // namespace laneway::plugin
