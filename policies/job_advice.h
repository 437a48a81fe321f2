// JobAdvice: where a job stands in the order of a policy from outside (advised.h), as its adviser
// said. Plain data.
#pragma once

#include <cmath>

#include "base/time.h"

namespace laneway::policies {

struct JobAdvice {
  // The lowest goes first. From what the adviser knew on it changes by itself, so that it stays
  // right until the adviser says another one.
  double value = 0;
  double per_busy_s = 0;  // for each second of device time that the job had since
  double per_wait_s = 0;  // for each second that the job has waited since
  // Its turns end after so long while others wait; 0: as long as nobody goes before it.
  Duration slice = Duration();
  // What the adviser knew, as it was told: the device time that the job had had, and for how long
  // it had waited.
  Duration busy = Duration();
  Duration waiting = Duration();

  bool is_finite() const {
    return std::isfinite(value) && std::isfinite(per_busy_s) && std::isfinite(per_wait_s);
  }
};

}  // namespace laneway::policies
