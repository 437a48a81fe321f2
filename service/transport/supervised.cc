#include "service/transport/supervised.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <utility>

namespace laneway::service {

Result<Channel> take_supervisor_channel(const std::string& program) {
  int type = 0;
  int domain = 0;
  socklen_t size = sizeof(int);
  const bool channel =
      ::getsockopt(kSupervisorDescriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
      ::getsockopt(kSupervisorDescriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
      type == SOCK_STREAM && domain == AF_UNIX;
  if (!channel) {
    return Error{ErrorCode::refused,
                 program + " is started by lanewayd, not by hand: start lanewayd instead"};
  }
  Descriptor descriptor(kSupervisorDescriptor);
  if (const Status status = set_close_on_exec(descriptor, true); !status) return status.error();
  return Channel(std::move(descriptor));
}

}  // namespace laneway::service
