// IterationSum: so many iterations, and the device time that they took together. Plain data.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace laneway::lanes {

struct IterationSum {
  uint64_t count = 0;
  Duration busy = Duration();
};

}  // namespace laneway::lanes
