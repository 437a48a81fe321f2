// OnceWarnings: logs each of torch's warnings on threads in lanes once per process, and not in
// every iteration (cuDNN's recurrent layers warn in each call). After 64 different texts it logs no
// more. Thread-safe.
#pragma once

#include <c10/util/Exception.h>

namespace laneway::adaptor {

class OnceWarnings final : public c10::WarningHandler {
 public:
  // The process's object.
  static OnceWarnings& instance();

  void process(const c10::Warning& warning) override;
};

}  // namespace laneway::adaptor
