// Maxima of streams and copies.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace laneway::limits {

// Pieces of work enqueued on one stream and not yet complete: far more than an iteration
// enqueues, and few enough that a stream that has stopped is noticed.
inline constexpr uint32_t kMaxStreamQueue = 65'536;
// The size of each of the two pinned chunks through which bytes pass into a pool that the CPU
// cannot address: large enough that the fixed cost of a copy (some 10 us) does not matter, small
// enough that the copy of the first chunk, which overlaps with nothing, does not either.
inline constexpr Bytes kCopyChunk = mib(8);
// A copy that the device makes from or to pinned memory, of a caller with many bytes: on an H200
// one of 4 MiB (80 us) has 0.95 of the link's rate, one of 1 MiB 0.87, waited for each time
// (bench/results/gpu_check.json, section link).
inline constexpr Bytes kPinnedPiece = mib(4);

}  // namespace laneway::limits
