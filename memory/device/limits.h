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

}  // namespace laneway::limits
