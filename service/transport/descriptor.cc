#include "service/transport/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace laneway::service {

void Descriptor::reset(int descriptor) {
  // Linux frees the number even when close reports an error: it is never closed twice.
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = descriptor < 0 ? -1 : descriptor;
}

Result<Descriptor> Descriptor::duplicate() const {
  if (!valid()) return Error{ErrorCode::invalid_argument, "an empty descriptor is not duplicated"};
  const int copy = fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    return Error{ErrorCode::failed, "descriptor " + std::to_string(descriptor_) +
                                        " is not duplicated: " + std::strerror(errno) +
                                        " (ulimit -n is the limit of open files)"};
  }
  return Descriptor(copy);
}

Status set_close_on_exec(const Descriptor& descriptor, bool close_on_exec) {
  if (fcntl(descriptor.get(), F_SETFD, close_on_exec ? FD_CLOEXEC : 0) == 0) return {};
  return Error{ErrorCode::failed, "FD_CLOEXEC of descriptor " + std::to_string(descriptor.get()) +
                                      " is not changed: " + std::strerror(errno)};
}

}  // namespace laneway::service
