#include "service/supervisor/listening_sockets.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "service/transport/unix_socket.h"

namespace laneway::service {
namespace {

constexpr mode_t kFolderMode = 0750;
constexpr mode_t kSocketMode = 0660;

Error failure(const std::string& path, const std::string& what) {
  return Error{ErrorCode::failed, path + ": " + what + ": " + std::strerror(errno)};
}

Error refusal(const std::string& path, const std::string& why) {
  return Error{ErrorCode::refused, path + " " + why};
}

class Umask {
 public:
  explicit Umask(mode_t mask) : old_(::umask(mask)) {}
  ~Umask() { ::umask(old_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  mode_t old_;
};

// listen_unix replaces what lies at the path; only what a service left there may go.
Result<Descriptor> listen_at(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
    return refusal(path, "is there and no socket: remove it, or choose another --address");
  }
  return listen_unix(path, kSocketMode);
}

}  // namespace

Status prepare_folder(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(directory).parent_path(), error);
  {
    const Umask umask(0);
    if (::mkdir(directory.c_str(), kFolderMode) != 0 && errno != EEXIST) {
      return failure(directory, "the folder cannot be made");
    }
  }
  const Descriptor folder(
      ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid()) {
    const std::string why = errno == EACCES ? "is not yours to read" : "is no folder, or a link";
    return refusal(directory, why + ": choose an --address in a folder of your own");
  }
  struct stat status {};
  if (::fstat(folder.get(), &status) != 0) return failure(directory, "cannot be looked at");
  if (status.st_uid != ::geteuid()) {
    return refusal(directory, "belongs to user " + std::to_string(status.st_uid) + ", not to " +
                                  std::to_string(::geteuid()) +
                                  ": choose an --address in a folder of your own");
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return refusal(directory,
                   "can be written by others, who could put sockets of theirs there: chmod go-w "
                   "it, or choose an --address in a folder of its own");
  }
  return {};
}

Status ListeningSockets::listen(const std::string& path, Descriptor& socket, File& file) {
  auto made = listen_at(path);
  if (!made) return made.error();
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return failure(path, "it is gone again");
  file = {.path = path, .device = status.st_dev, .inode = status.st_ino};
  socket = std::move(made).value();
  return {};
}

Result<ListeningSockets> ListeningSockets::open(const Address& address) {
  ListeningSockets sockets;
  Status made = listen(address.path(), sockets.control_, sockets.files_[0]);
  if (made) made = listen(address.descriptor_path(), sockets.descriptors_, sockets.files_[1]);
  if (!made) return made.error();
  return sockets;
}

std::optional<std::string> ListeningSockets::what_became_of(const File& file) {
  struct stat status {};
  if (::lstat(file.path.c_str(), &status) != 0) {
    return file.path + (errno == ENOENT ? " was removed"
                                        : std::string(" cannot be seen: ") + std::strerror(errno));
  }
  const bool same = status.st_dev == file.device && status.st_ino == file.inode;
  if (same) return std::nullopt;
  return file.path + " was replaced, by user " + std::to_string(status.st_uid);
}

std::optional<std::string> ListeningSockets::lost() const {
  for (const File& file : files_) {
    if (auto what = what_became_of(file)) return what;
  }
  return std::nullopt;
}

ListeningSockets::~ListeningSockets() {
  if (!control_.valid()) return;  // moved away
  for (const File& file : files_) {
    if (!file.path.empty() && !what_became_of(file)) ::unlink(file.path.c_str());
  }
}

}  // namespace laneway::service
