// Maxima of the worker: plans, its part of a device, waiting, suspects.
#pragma once

#include <cstdint>

#include "base/limits.h"
#include "base/time.h"

namespace laneway::limits {

inline constexpr uint32_t kMaxCachedPlans = 1'024;  // per worker; the oldest hash goes first
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

}  // namespace laneway::limits
