// Maxima of the trace of a service.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace laneway::limits {

// Records wait in memory until the broker is idle, a tenth of a second at
// most; records without room are counted. The largest is the report of a worker with every job.
inline constexpr uint32_t kMaxTraceBufferBytes = 32u << 20;
inline constexpr uint32_t kMaxTraceRecordBytes = 16u << 20;
inline constexpr Duration kLongestTraceDelay = milliseconds(100);

}  // namespace laneway::limits
