// Flight: what of a finished iteration is still under way on its device: its last nodes, and the
// outputs on their way to the client. Devices that compute when they are called have none. One
// thread at a time.
#pragma once

#include "base/result.h"

namespace laneway::lanes {

class Flight {
 public:
  // Waits until the device is done with it, and delivers nothing.
  virtual ~Flight() = default;

  // Whether land() would not wait.
  virtual bool done() const = 0;
  // Waits, and copies the outputs to where they go. Called once. Error device_lost when the device
  // failed, which lasts.
  virtual Status land() = 0;
};

}  // namespace laneway::lanes
