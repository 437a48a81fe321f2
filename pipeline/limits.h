// Maxima of what moves images.
#pragma once

#include "base/bytes.h"

namespace laneway::limits {

// So many bytes of an image that comes back are on their way at a time: enough that the link of a
// device is never without work, and so few (1.2 ms of a link of 55 GB/s) that a lane whose nodes
// are enqueued ahead of their bytes keeps its device waiting no longer.
inline constexpr Bytes kLoadAhead = mib(64);
// Memory of the store is pinned in pieces of this size when images first use them: 53 ms a GiB, and
// as much again and more for pages that nobody had touched.
inline constexpr Bytes kStorePin = mib(16);

}  // namespace laneway::limits
