// Maxima of work on a device: what a lane may have enqueued, staged and recorded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/time.h"

namespace laneway::limits {

// How much device work a lane may have enqueued: enough that the device never waits for the CPU,
// little enough that a lane stops soon after it must.
inline constexpr Duration kRunAhead = milliseconds(1);
// Marks on the stream show how far it is: one mark for about kRunAheadMark of work, so that marks
// (1 to 2 us each) cost a hundredth of the work, and at least one per kMaxNodesPerMark nodes, so
// that a change of pace is noticed. kMaxRunAheadMarks marks are more than kRunAhead of work; this
// bound holds while the time of the work is unknown.
inline constexpr Duration kRunAheadMark = microseconds(100);
inline constexpr uint32_t kMaxNodesPerMark = 32;
inline constexpr size_t kMaxRunAheadMarks = 16;
// Pinned memory of a lane through which inputs and outputs pass: those of the largest batches, for
// every iteration in flight. Bytes without room there are copied while the caller waits.
inline constexpr Bytes kMaxLaneStaging = Bytes(512ll << 20);
// The smallest block of that memory: one is enough for most jobs' iterations.
inline constexpr Bytes kMinStagingBlock = Bytes(1 << 20);
// Larger inputs are staged in pieces, so that the link carries one while the next is staged.
inline constexpr Bytes kStagingPiece = Bytes(4 << 20);
// Iterations of a lane that are still on the device while the next is enqueued: two keep the device
// busy, the others are for iterations much shorter than kRunAhead.
inline constexpr uint32_t kMaxEnqueued = 4;
// The workspace that a library may take for one operator on a lane, where the library asks before
// it chooses an algorithm: the largest one of cuDNN's heuristics for common convolutions.
inline constexpr Bytes kMaxLibraryWorkspace = Bytes(1 << 30);
// Planned iterations at equal addresses before one is recorded for replay: capture allocates, and
// a plan may still change after the first ones.
inline constexpr uint32_t kReplayAfter = 3;
// Threads of which is remembered that they ran a graph and may record it: those of clients that run
// their iterations themselves come and go.
inline constexpr size_t kReplayThreads = 16;
// How often in a row a recording that other threads spoilt is made again: each costs about an
// iteration, and where they always do, no replay is worth it.
inline constexpr uint32_t kRecordAgain = 3;

}  // namespace laneway::limits
