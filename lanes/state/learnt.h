// Learnt: what a core has learnt of a job that its worker does not count itself. The core tells the
// worker (KeepLearnt), which repeats it in its report, so that another core goes on with it: the
// policy's note. What a core hears in a report comes from another process and is checked.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "policies/note.h"

namespace laneway::lanes {

struct Learnt {
  uint64_t policy = 0;  // whose note it is (note_key, checked_policy.h); 0: there is none
  LaneId lane;          // for which it was made: in another lane it means nothing
  policies::PolicyNote note;
  friend bool operator==(const Learnt&, const Learnt&) = default;
};

}  // namespace laneway::lanes
