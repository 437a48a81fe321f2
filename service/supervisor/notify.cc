#include "service/supervisor/notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

void notify_service_manager(const std::string& state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || *path == '\0') return;
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  const size_t size = std::strlen(path);
  if (size >= sizeof(where.sun_path)) {
    log_warning(
        "NOTIFY_SOCKET is longer than a socket's path can be; the service manager gets no message");
    return;
  }
  std::memcpy(where.sun_path, path, size);
  if (where.sun_path[0] == '@') where.sun_path[0] = '\0';  // an abstract name
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size);
  if (::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&where), length) < 0) {
    log_warning(std::string("the service manager gets no message: ") + std::strerror(errno));
  }
}

}  // namespace laneway::service
