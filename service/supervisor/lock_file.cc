#include "service/supervisor/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sstream>
#include <thread>

#include "service/transport/unix_socket.h"

namespace laneway::service {
namespace {

// The broker of a service that was killed is killed with it, a moment later.
constexpr std::chrono::milliseconds kLastMoment(1'000);
constexpr std::chrono::milliseconds kLookAgain(20);

Error failure(const std::string& path, const char* what) {
  return Error{ErrorCode::failed,
               "lock file " + path + ": " + what + " failed: " + std::strerror(errno)};
}

LockHolder read_holder(int file) {
  std::array<char, 512> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  LockHolder holder;
  if (size <= 0) return holder;
  std::istringstream words(std::string(text.data(), static_cast<size_t>(size)));
  words >> holder.pid >> holder.address;
  return holder;
}

// Whether `path` still names the open file: its owner may have removed it after we opened it.
bool names(const std::string& path, int file) {
  struct stat by_path {};
  struct stat by_file {};
  return ::lstat(path.c_str(), &by_path) == 0 && ::fstat(file, &by_file) == 0 &&
         by_path.st_dev == by_file.st_dev && by_path.st_ino == by_file.st_ino;
}

// Who listens at the address, after the last moment of one that was killed. Nobody but the owner of
// the folder can have put a socket there.
std::optional<pid_t> listener_at(const Address& address) {
  const auto until = std::chrono::steady_clock::now() + kLastMoment;
  while (true) {
    const auto pid = unix_listener(address.descriptor_path());
    if (!pid || std::chrono::steady_clock::now() >= until) return pid;
    std::this_thread::sleep_for(kLookAgain);
  }
}

Status write_holder(const std::string& path, int file, const std::string& address) {
  const std::string text = std::to_string(::getpid()) + " " + address + "\n";
  if (::ftruncate(file, 0) != 0) return failure(path, "emptying it");
  if (::pwrite(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return failure(path, "writing it");
  }
  return {};
}

}  // namespace

Result<std::variant<LockFile, LockHolder>> LockFile::take(const Address& address) {
  const std::string path = address.lock_path();
  while (true) {
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) return failure(path, "opening it");
    // One that an older version left there may be for the group to open.
    if (::fchmod(file.get(), 0600) != 0) return failure(path, "making it yours alone");
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return failure(path, "locking it");
      return std::variant<LockFile, LockHolder>(read_holder(file.get()));
    }
    if (!names(path, file.get())) continue;
    if (const auto pid = listener_at(address)) {
      return std::variant<LockFile, LockHolder>(LockHolder{*pid, address.text()});
    }
    const Status status = write_holder(path, file.get(), address.text());
    if (!status) return status.error();
    return std::variant<LockFile, LockHolder>(LockFile(path, std::move(file)));
  }
}

LockFile::~LockFile() {
  // Removed before the lock goes: whoever locks the file later finds that it has no name any more.
  if (file_.valid()) ::unlink(path_.c_str());
}

}  // namespace laneway::service
