#include "service/transport/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace laneway::service {
namespace {

Error failure(const std::string& path, const char* what) {
  const int reason = errno;
  ErrorCode code = ErrorCode::failed;
  if (reason == ECONNREFUSED || reason == ENOENT) code = ErrorCode::unavailable;
  if (reason == EACCES || reason == EPERM) code = ErrorCode::refused;
  return Error{code, "socket '" + path + "': " + what + ": " + std::strerror(reason)};
}

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return Error{ErrorCode::invalid_argument, "socket path '" + path + "' has " +
                                                  std::to_string(path.size()) + " bytes; 1 to " +
                                                  std::to_string(sizeof(address.sun_path) - 1) +
                                                  " are possible: use a shorter one"};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Descriptor make_socket(int flags) {
  return Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
}

}  // namespace

Result<Descriptor> listen_unix(const std::string& path, mode_t mode) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address) return address.error();
  Descriptor listener = make_socket(SOCK_NONBLOCK);
  if (!listener.valid()) return failure(path, "no socket");
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return failure(path, "is in the way");
  // The file gets the access bits of the socket, less the umask: bits taken away here are given
  // back below, and none that are not wanted ever appear.
  if (fchmod(listener.get(), mode) != 0) return failure(path, "access bits");
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address.value()),
           sizeof(sockaddr_un)) != 0) {
    return failure(path, "not bound");
  }
  if (chmod(path.c_str(), mode) != 0) return failure(path, "access bits");
  if (listen(listener.get(), SOMAXCONN) != 0) return failure(path, "not listening");
  return listener;
}

Result<Descriptor> connect_unix(const std::string& path) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address) return address.error();
  Descriptor connection = make_socket(0);
  if (!connection.valid()) return failure(path, "no socket");
  int result = 0;
  do {
    result = connect(connection.get(), reinterpret_cast<const sockaddr*>(&address.value()),
                     sizeof(sockaddr_un));
  } while (result != 0 && errno == EINTR);
  if (result != 0) return failure(path, "no connection");
  return connection;
}

std::optional<pid_t> unix_listener(const std::string& path) {
  const Result<sockaddr_un> address = address_of(path);
  const Descriptor connection = make_socket(SOCK_NONBLOCK);
  if (!address || !connection.valid()) return std::nullopt;
  const bool connected =
      connect(connection.get(), reinterpret_cast<const sockaddr*>(&address.value()),
              sizeof(sockaddr_un)) == 0;
  if (!connected && errno != EAGAIN) return std::nullopt;  // EAGAIN: more wait than it listens for
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return 0;
  return connected ? peer.pid : 0;
}

Result<std::optional<Descriptor>> accept_unix(const Descriptor& listener) {
  while (true) {
    Descriptor connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.valid()) return std::optional<Descriptor>(std::move(connection));
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<Descriptor>();
    if (errno == EINTR || errno == ECONNABORTED) continue;  // the next one
    return Error{ErrorCode::failed,
                 std::string("no connection is accepted: ") + std::strerror(errno)};
  }
}

}  // namespace laneway::service
