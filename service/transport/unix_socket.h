// Unix stream sockets at a path: the descriptor socket beside a service's address. Functions over
// Descriptor; all sockets are closed on exec. Paths are those of Address, which fit.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

// A listening socket (nonblocking: accept never waits) whose file has the access bits `mode` from
// the first moment on, whatever the umask. What lies at the path is replaced: whoever calls holds
// the service's lock. failed names path and reason.
Result<Descriptor> listen_unix(const std::string& path, mode_t mode);

// unavailable: nobody listens there; refused: the file's permissions; failed: anything else.
Result<Descriptor> connect_unix(const std::string& path);

// The next connection; nothing when none waits (any more).
Result<std::optional<Descriptor>> accept_unix(const Descriptor& listener);

// The process that listens at `path`, as the system has it (0: one of another namespace); nothing
// when nobody does. Does not wait.
std::optional<pid_t> unix_listener(const std::string& path);

}  // namespace laneway::service
