// Maxima of the worker: plans, its part of a device, waiting, suspects.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/time.h"

namespace laneway::limits {

inline constexpr uint32_t kMaxCachedPlans = 1'024;  // per worker; the oldest hash goes first
// Graphs that no job has and that are known all the same: a client that makes one job after another
// has a few, a service of many clients some dozens.
inline constexpr size_t kMaxUnusedGraphs = 64;
// … and of their binary forms together, which are about a tenth of what they take resolved (a graph
// of 5,000 nodes has about 1 MiB).
inline constexpr Bytes kMaxUnusedGraphBytes = mib(32);
// Users whose measured plans one graph has: a plan is a few hundred KiB.
inline constexpr size_t kMaxUsersOfPlans = 64;

// The part of a device's free memory that becomes the pool: the rest is for torch's own workspaces,
// the driver's, and the modules of kernels that are loaded later.
inline constexpr int64_t kDevicePoolPercent = 90;
// How long a lane's thread with iterations in flight spins before it sleeps between two looks for
// retired iterations and new work: about the cost of waking a thread. From then on it sleeps for a
// thirty-second of the time that it has waited already, within the next two limits: so it notices
// late by little, and uses little of the core.
inline constexpr Duration kLandingSpin = microseconds(50);
inline constexpr Duration kShortestLandingRest = microseconds(20);
inline constexpr Duration kLongestLandingRest = microseconds(200);
// Iterations that a suspect runs alone on the device, unless its work ends before: as many as one
// of its clients can have had in flight when the device failed. Afterwards it is acquitted, because
// during a long training other jobs may break the device again.
inline constexpr uint32_t kSuspectIterations = kMaxInFlight;

// Snapshots are copied in parts of this size.
inline constexpr Bytes kSnapshotPart = mib(4);
// The inputs of the iterations since a snapshot, at most (or of one, where that has more).
inline constexpr Bytes kLargestRedoLog = mib(64);
// How a job's state is kept recoverable is chosen again after so many iterations; as often the cost
// of undo is measured.
inline constexpr uint64_t kIterationsPerChoice = 64;
// The first choice: what the first iterations take is no measure.
inline constexpr uint64_t kIterationsBeforeChoice = 16;

// A node that takes so many times as long as the longest that was seen of its graph hangs
// (service/supervisor/lane_watch.h).
inline constexpr int64_t kHangFactor = 50;

// An iteration is held for more urgent ones for at most so many times what its graph's last one
// took, or for the time below if that is more: so a job keeps at least a fifth of its pace, however
// many others interrupt it, if its iterations take 25 ms or more.
inline constexpr int64_t kPauseFactor = 4;
inline constexpr Duration kLeastPause = milliseconds(100);
// The iteration of one request is given up for more urgent jobs at most so often.
inline constexpr uint32_t kMostAbandons = 2;

// A standby runs graphs over memory of its own, so that libraries are warm: at most so much of it,
// and never more than half of what is free. Larger steps take long even where they are warm.
inline constexpr Bytes kMostScratch = gib(1);
// So much of the pool is mapped before a standby looks whether it was activated meanwhile.
inline constexpr Bytes kMapAtOnce = mib(64);
// An activated worker whose preparations do not end within this time is of no use: one of them
// hangs. Only a hang comes near it.
inline constexpr Duration kPreparingPatience = seconds(10);

// A lane's thread looks at a turn that lingers no sooner than this again.
inline constexpr Duration kShortestLinger = milliseconds(1);

}  // namespace laneway::limits
