// OnceWarnings: what torch warns of on a thread in a lane, said once for the process and not in
// every iteration (cuDNN's recurrent layers would in each call). Thread-safe.
#pragma once

#include <c10/util/Exception.h>

namespace laneway::adaptor {

class OnceWarnings final : public c10::WarningHandler {
 public:
  // The process's.
  static OnceWarnings& instance();

  void process(const c10::Warning& warning) override;
};

}  // namespace laneway::adaptor
