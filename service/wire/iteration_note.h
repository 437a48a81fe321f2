// IterationNote: one iteration as its lane noted it while a trace is written. Plain data, in
// messages of the worker and in the trace.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace laneway::wire {

enum class IterationOutcome : uint8_t {
  completed = 0,
  did_not_fit = 1,      // given up without a trace in the job; it runs again in a larger lane
  failed = 2,           // taken back, the job goes on
  failed_for_good = 3,  // the job ends
  abandoned = 4,        // given up without a trace for a more urgent job; it runs again
  cancelled = 5,        // the same, and the job is over
};

struct IterationNote {
  JobId job;
  LaneId lane;
  uint32_t graph = 0;
  int64_t start_ns = 0;   // on the machine's steady clock
  int64_t took_ns = 0;    // without the time for which it was held
  int64_t paused_ns = 0;  // that time
  IterationOutcome outcome = IterationOutcome::completed;
  friend bool operator==(const IterationNote&, const IterationNote&) = default;
};

}  // namespace laneway::wire
