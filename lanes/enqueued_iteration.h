// EnqueuedIteration: what of a finished iteration is still under way on its device: its last nodes,
// and the outputs on their way to the client. Devices that compute when they are called have none.
// One thread at a time.
#pragma once

#include "base/result.h"

namespace laneway::lanes {

class EnqueuedIteration {
 public:
  // Waits until the device is done with it, and delivers nothing.
  virtual ~EnqueuedIteration() = default;

  // Whether retire() would not wait.
  virtual bool done() const = 0;
  // Waits, and copies the outputs to where they go. Called once. Error device_lost when the device
  // failed, which lasts.
  virtual Status retire() = 0;
};

}  // namespace laneway::lanes
