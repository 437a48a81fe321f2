// Maxima that several parts of the program share, each with its reason; a limit of one folder
// stands in the limits.h of that folder. To reach a limit is an outcome that the caller sees (an
// error or an enum), never silent truncation.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace laneway::limits {

inline constexpr uint64_t kMaxGraphBytes = 256ull << 20;
inline constexpr uint32_t kMaxStringBytes = 4'096;  // operator names, user lines
inline constexpr uint32_t kMaxImageSlots = 1'000'000;
// Files that one job's first bytes lie in: each is a descriptor in broker and supervisor until the
// image is placed, and all of them come in one message.
inline constexpr uint32_t kMaxWeightFiles = 12;
// What clients may say of a job (base/job_options.h). Policies compute with these numbers: the
// bounds keep sums and products of all jobs far from overflow, and no job's share is so small that
// it never comes, or so large that others' never does.
inline constexpr int64_t kMaxPriority = 1'000'000;  // and as far below 0
inline constexpr double kMinWeight = 0.001;
inline constexpr double kMaxWeight = 1'000;
inline constexpr uint64_t kMaxTotalIterations = 1'000'000'000'000'000;
inline constexpr Duration kMaxIterationTime = seconds(24ll * 3600);
inline constexpr Duration kMaxDeadline = seconds(10ll * 365 * 24 * 3600);
inline constexpr uint32_t kMaxGraphsPerJob = 64;  // shapes and modes; the least used is dropped
inline constexpr uint32_t kMaxJobs = 4'096;       // known to one service at a time
inline constexpr uint32_t kMaxLanes = 64;         // each has a thread and a stream
inline constexpr uint32_t kMaxPostedEvents = 1u << 20;  // at the core's gateway; far above what all
                                                        // jobs together can have open
inline constexpr uint32_t kMaxInFlight = 64;  // iterations of one job accepted but not done
// Links of a job: its owner's and those of attached sessions; a lane looks at each before it may
// sleep, and each costs broker and worker descriptors.
inline constexpr uint32_t kMaxLinksPerJob = 64;
// Segments that one link shares with the worker, with blocks of iterations and of state: a few for
// every graph. Each is a descriptor in broker and supervisor.
inline constexpr uint32_t kMaxSegmentsPerLink = 256;
// Bytes of torch.get_rng_state() on the CPU, and the bytes that a journal reserves for them.
inline constexpr uint64_t kRandomStateBytes = 5'056;
inline constexpr uint64_t kRandomStateRoom = 5'120;
// Offsets in the pool are multiples of this on the host (cache line, and what torch's own CPU
// allocator gives); on CUDA of 512 (what torch's own CUDA allocator gives: kernels pick their
// vectorised forms by it).
inline constexpr int64_t kHostAlignment = 64;
inline constexpr int64_t kCudaAlignment = 512;

}  // namespace laneway::limits
