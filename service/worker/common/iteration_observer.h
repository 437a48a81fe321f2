// IterationObserver: hears of every iteration that a lane ran, while a trace is written.
#pragma once

#include "service/wire/iteration_note.h"

namespace laneway::service {

class IterationObserver {
 public:
  virtual ~IterationObserver() = default;
  // On the lane's thread, behind the client's answer and before the job may be run again.
  // Thread-safe; does not wait.
  virtual void iterated(const wire::IterationNote& note) = 0;
};

}  // namespace laneway::service
