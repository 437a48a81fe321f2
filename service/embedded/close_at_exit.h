// Closes what is still open when the process exits. Lanes that went on while the static objects of
// torch are destroyed would crash, so this comes before: handlers of exit run last in, first out,
// and torch was loaded earlier. Thread-safe.
#pragma once

#include <memory>

#include "service/embedded/embedded.h"

namespace laneway::service {

// `service` is closed at the exit of this process, if it is there then and not of a child made by
// fork().
void close_at_exit(const std::shared_ptr<EmbeddedService>& service);

}  // namespace laneway::service
