// EnqueuedIteration: an iteration of which all nodes are enqueued on its device, but not all work
// is complete: its last nodes, and the copies of its outputs to the client. On devices that compute
// during the call nothing is left to do. One thread at a time.
#pragma once

#include "base/result.h"

namespace laneway::lanes {

class EnqueuedIteration {
 public:
  // Waits until the device has completed the work, and delivers no outputs.
  virtual ~EnqueuedIteration() = default;

  // Whether retire() would return without waiting.
  virtual bool done() const = 0;
  // Waits, and copies the outputs to their places. Must be called at most once. Error device_lost
  // when the device failed for good.
  virtual Status retire() = 0;
};

}  // namespace laneway::lanes
