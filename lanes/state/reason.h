// Reason: why a job waits or was refused, as a code and the numbers of the arithmetic. The core
// makes reasons; the edge makes sentences of them (reason_text).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/ids.h"

namespace laneway::lanes {

enum class ReasonCode : uint8_t {
  none,
  larger_than_pool,  // refused: persistent + region need exceed the empty pool
  pool_full,         // waits: the claims of others leave too little
  pool_fragmented,   // waits: enough bytes are free, but not in one piece
  region_too_small,  // held: its lane must grow and there is no room yet
  behind_others,     // waits: the policy admits others first
  lanes_exhausted,   // waits: no lane may be opened and the policy shares none
  too_many_jobs,     // refused: limits::kMaxJobs
  context_conflict,  // waits: running jobs have other process-wide numeric flags
  quarantined,       // it brought its worker down twice: not run until it is released
  cancelled,
  exchange_full,    // waits: were it admitted, jobs could not change places any more
  contradicted,     // refused: the worker's report of the job contradicts the rest of the report
  waits_turn,       // resident: another job of its lane has the turn
  copy_under_way,   // its image is on its way in or out
  worker_starting,  // there is no worker now
  paused,           // its iteration is held for one of a more urgent job
  no_room_to_grow,  // its iteration is refused: all who could make room for it wait for room too
  takes_turns,  // resident: its lane waits for a turn of another lane, in a trial (lane_limit.h)
  no_exchange,  // refused: as exchange_full, and no training's end would help
  no_way_back,  // its iterations are refused: its image is outside, and finds no room any more
};

inline constexpr size_t kReasonCodeCount = 21;

// Who has most of the pool, the most first; none: nobody, or it was not asked.
struct Holders {
  JobId first;
  JobId second;
  JobId third;
  uint32_t others = 0;  // that have less
  friend bool operator==(const Holders&, const Holders&) = default;
};

// The numbers that the code's sentence needs; unused ones stay zero.
struct Reason {
  ReasonCode code = ReasonCode::none;
  Bytes persistent;         // of the job's image
  Bytes region;             // the region that the job needs
  Bytes capacity;           // the pool
  Bytes claimed;            // the sum of all claims now
  Bytes largest_free;       // longest free piece of the pool
  Bytes outside = {};       // for images outside of the pool, in all
  Bytes outside_free = {};  // … longest piece of which that is nobody's
  Bytes staying = {};       // in the pool: images with no place outside to which they could leave
  uint32_t position = 0;    // in the queue, from 1
  LaneId lane = LaneId();   // in which it waits for its turn
  JobId behind = JobId();   // whose turn is open there; none: nobody's
  Holders holders = {};
  bool may_leave = false;  // images may leave the pool
};

const char* reason_code_name(ReasonCode code);
// One sentence with the arithmetic and the remedy. `away`: of a job whose image is outside of the
// pool, and comes back without anybody's end.
std::string reason_text(const Reason& reason, bool away = false);

}  // namespace laneway::lanes
