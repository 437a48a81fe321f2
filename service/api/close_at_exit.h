// Closes what is still open when the process exits. An embedded service's lanes that went on while
// the static objects of torch are destroyed would crash, so this comes before: handlers of exit run
// last in, first out, and torch was loaded earlier. A connection says goodbye. Thread-safe.
#pragma once

#include <memory>

namespace laneway::service {

class OpenService {
 public:
  virtual ~OpenService() = default;
  // On the exiting thread; others may be inside calls.
  virtual void close_for_exit() = 0;
};

// `service` is closed at the exit of this process, if it is there then and not of a child made by
// fork().
void close_at_exit(const std::shared_ptr<OpenService>& service);

}  // namespace laneway::service
