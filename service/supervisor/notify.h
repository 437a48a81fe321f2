// Tells the service manager how far the service is, as sd_notify(3) describes it.
#pragma once

#include <string>

namespace laneway::service {

// `state` is "READY=1" or the like. Does nothing unless NOTIFY_SOCKET is set.
void notify_service_manager(const std::string& state);

}  // namespace laneway::service
