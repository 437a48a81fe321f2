// OwnerProcess: which process an object belongs to. A child made by fork() inherits the bytes of a
// service, but neither its threads nor its pool: there every use is refused, and nothing is closed,
// joined or freed, because that would wait for threads that do not exist. Value type; thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.h"

namespace laneway::service {

class OwnerProcess {
 public:
  OwnerProcess();  // this one

  // A load and a comparison: no system call.
  bool is_this() const;
  // For use elsewhere: names both processes, and says what to do.
  Error error_elsewhere() const;

 private:
  uint64_t generation_;  // forks on the way to the process; process ids come again
  pid_t pid_;
};

}  // namespace laneway::service
